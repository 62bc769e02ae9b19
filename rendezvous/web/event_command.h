// The command that is told of a job's events (--on-event): one event at a time, as a JSON line on its standard
// input. It never makes the job wait. At the end of the process EndPrograms() ends it. Lives on the loop thread.
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <future>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/core/allowance.h"
#include "base/core/note.h"
#include "base/core/time.h"
#include "muster/v1/control.pb.h"
#include "rendezvous/web/event_file.h"

namespace muster::rendezvous {

inline constexpr size_t kMaxEventsQueued = 100;  // while the command runs; further ones are left out
inline constexpr absl::Duration kEventCommandLimit = absl::Seconds(30);  // for one event; then it is killed

// names: of the events that are wanted, or kAllEvents; empty: warnings and errors are, but for refusals, of
// which strangers could make many.
bool IsWanted(const v1::Event& event, const std::vector<std::string>& names);

class EventCommand {
 public:
  struct Plan {
    std::string command;  // of the shell
    std::vector<std::string> names;
    std::string run_id;
  };
  // note: logs what fails.
  EventCommand(Plan plan, std::function<void(const Note&)> note);

  // news: since the last call. To be called now and then, also without any.
  void Tell(BootTime now, const v1::Events& news);
  bool IsDone() const { return !running_ && lines_.empty(); }  // it has been told of all

 private:
  void TakeEnded(BootTime now);
  void Begin();
  void Complain(BootTime now, const std::string& what);

  const Plan plan_;
  const std::function<void(const Note&)> note_;
  std::deque<std::string> lines_;                     // that wait
  std::optional<std::future<absl::Status>> running_;  // nullopt: nothing runs
  Allowance complaints_{kEventComplaintsBurst, kEventComplaintsPerSecond};
  bool is_full_ = false;  // and this was said
};

}  // namespace muster::rendezvous
