// Runs a pure core inside its shell: passes events to the core, and has the shell carry out the effects that come
// back. The three processes and the simulation use it, so that all of them apply effects in the same order.
//
// The rules:
// - The time is read once for each event, when the core handles it.
// - Effects are carried out in the order in which the core has given them.
// - An event that arrives while effects are carried out waits until they all are: a spawned worker that fails at
//   once, or a sweep that finds nothing. So the core never sees an event before the shell has done what it ordered
//   in answer to the previous one, and neither the core nor an effect is ever re-entered. Waiting events are
//   handled in the order of their arrival, and own copies of what they carry.
//
//   CoreDriver<HostCore, Effect> driver(&core, {.clock = ..., .carry_out = ..., .log = ...});
//   driver.Feed(&HostCore::OnExit, local_rank, ending);  // core.OnExit(now, local_rank, ending, &effects)
//
// Thread-compatible: lives on the loop thread of its shell. Pure itself.
#pragma once

#include <deque>
#include <functional>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "base/core/note.h"
#include "base/core/time.h"

namespace muster {

// Effect: a std::variant of the core's effects, Note among them.
template <typename Core, typename Effect>
class CoreDriver {
 public:
  using Effects = std::vector<Effect>;

  // What the core needs of its shell. All three are set.
  struct Shell {
    std::function<BootTime()> clock;
    std::function<void(const Effect& effect)> carry_out;  // gets no Note
    std::function<void(const Note& note)> log;
  };

  // The core must outlive this object.
  CoreDriver(Core* core, Shell shell) : core_(core), shell_(std::move(shell)) {}
  CoreDriver(const CoreDriver&) = delete;
  CoreDriver& operator=(const CoreDriver&) = delete;

  // event: a method of the core with the parameters (BootTime now, payload..., Effects* out). On return the event
  // and all that it caused are handled, unless the call came from inside an effect.
  template <typename Event, typename... Payload>
  void Feed(Event event, const Payload&... payload) {
    static_assert(std::is_invocable_v<Event, Core&, BootTime, const Payload&..., Effects*>,
                  "an event is a method of the core: (BootTime now, payload..., Effects* out)");
    if (busy_) {
      waiting_.push_back([this, event, kept = std::tuple<std::decay_t<const Payload&>...>(payload...)] {
        std::apply([&](const auto&... part) { Handle(event, part...); }, kept);
      });
      return;
    }
    busy_ = true;
    Handle(event, payload...);
    while (!waiting_.empty()) {
      const std::function<void()> next = std::move(waiting_.front());
      waiting_.pop_front();
      next();
    }
    busy_ = false;
  }

 private:
  template <typename Event, typename... Payload>
  void Handle(Event event, const Payload&... payload) {
    Effects effects;
    std::invoke(event, *core_, shell_.clock(), payload..., &effects);
    for (const Effect& effect : effects) {
      if (const Note* const note = std::get_if<Note>(&effect)) {
        shell_.log(*note);
      } else {
        shell_.carry_out(effect);
      }
    }
  }

  Core* const core_;
  const Shell shell_;
  bool busy_ = false;  // an event is being handled
  std::deque<std::function<void()>> waiting_;
};

// For a shell with one function for each type of effect: passes the effect on as its own type.
//   .carry_out = ByType<Effect>([this](const auto& effect) { CarryOut(effect); })
template <typename Effect, typename CarryOut>
std::function<void(const Effect&)> ByType(CarryOut carry_out) {
  return [carry_out = std::move(carry_out)](const Effect& effect) {
    std::visit(
        [&carry_out](const auto& one) {
          // A driver logs notes itself, so a shell needs no function for them.
          if constexpr (!std::is_same_v<std::decay_t<decltype(one)>, Note>) carry_out(one);
        },
        effect);
  };
}

}  // namespace muster
