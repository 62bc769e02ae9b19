#include "cli/commands/watch_command.h"

#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdlib>
#include <future>
#include <optional>
#include <string_view>
#include <utility>

#include "absl/time/clock.h"
#include "base/core/status_macros.h"
#include "base/core/time.h"
#include "base/io/bounded_call.h"
#include "base/io/event_loop.h"
#include "base/text/text.h"
#include "cli/commands/commands.h"
#include "cli/commands/job_question.h"
#include "cli/status/stacks_text.h"
#include "cli/status/status_text.h"
#include "cli/watch/raw_terminal.h"
#include "cli/watch/watch_screen.h"

namespace muster::cli {
namespace {

constexpr absl::Duration kTick = absl::Milliseconds(100);  // ages grow, and the terminal may have another size

constexpr absl::Duration kPatience = absl::Seconds(30);  // without an answer, after there was one

// Lives on the loop thread.
class Watch {
 public:
  explicit Watch(const WatchAsks& asks) : asks_(asks), colour_(std::getenv("NO_COLOR") == nullptr) {}

  absl::Status Run();
  bool asks_now() const { return pending_.has_value(); }

 private:
  using Answer = absl::StatusOr<v1::JobView>;

  void OnInput(uint32_t events);
  void Tick();
  void TakeAnswer();
  void AskIfDue();
  void Draw();

  const WatchAsks asks_;
  const bool colour_;
  EventLoop loop_;
  RawTerminal terminal_;
  WatchScreen screen_;
  std::optional<std::future<Answer>> pending_;  // the question that a thread has asked
  bool is_for_stacks_ = false;                  // that question
  bool wants_stacks_ = false;
  BootTime look_at_ = absl::InfinitePast();  // next time
  BootTime answered_at_ = EventLoop::Now();
  std::string drawn_;
};

absl::Status Watch::Run() {
  RETURN_IF_ERROR(loop_.status());
  RETURN_IF_ERROR(terminal_.Take());
  loop_.Watch(STDIN_FILENO, EPOLLIN, [this](uint32_t events) { OnInput(events); });
  loop_.Post([this] { Tick(); });
  loop_.Run();
  return absl::OkStatus();
}

void Watch::OnInput(uint32_t events) {
  std::array<char, 1024> bytes = {};
  const ssize_t count = read(STDIN_FILENO, bytes.data(), bytes.size());
  if (count <= 0 && (count == 0 || (events & (EPOLLHUP | EPOLLERR)) != 0)) return loop_.Stop();  // nobody is there
  if (count <= 0) return;
  for (const KeyPress& press : KeysIn(std::string_view(bytes.data(), static_cast<size_t>(count)))) {
    const WatchScreen::Wish wish = screen_.OnKey(press, RawTerminal::Measure());
    if (wish == WatchScreen::Wish::kQuit) return loop_.Stop();
    wants_stacks_ |= wish == WatchScreen::Wish::kStacks;
  }
  Draw();
}

void Watch::Tick() {
  TakeAnswer();
  AskIfDue();
  Draw();
  loop_.After(kTick, [this] { Tick(); });
}

void Watch::TakeAnswer() {
  if (!pending_ || pending_->wait_for(std::chrono::seconds(0)) != std::future_status::ready) return;
  const Answer view = pending_->get();
  pending_.reset();
  const std::string why(AsStd(view.status().message()));
  if (is_for_stacks_) {
    screen_.ShowStacks(view.ok() ? StacksText(view->run_id(), view->stacks()) : why);
  } else if (view.ok()) {
    screen_.Show(*view);
    answered_at_ = EventLoop::Now();
  } else {
    screen_.ShowProblem(why);
  }
}

void Watch::AskIfDue() {
  const BootTime now = EventLoop::Now();
  if (pending_ || (!wants_stacks_ && now < look_at_)) return;
  is_for_stacks_ = std::exchange(wants_stacks_, false);
  if (!is_for_stacks_) look_at_ = now + kLookEvery;
  pending_ = CallAside(is_for_stacks_ ? asks_.stacks : asks_.view);
}

void Watch::Draw() {
  const Size size = RawTerminal::Measure();
  std::string frame = Frame(screen_.Rows(size, EventLoop::Now() - answered_at_), size, colour_);
  if (frame == drawn_) return;
  drawn_ = std::move(frame);
  for (std::string_view rest = drawn_; !rest.empty();) {
    const ssize_t count = write(STDOUT_FILENO, rest.data(), rest.size());
    if (count <= 0) return loop_.Stop();  // nobody sees it
    rest.remove_prefix(static_cast<size_t>(count));
  }
}

}  // namespace

int WatchOnTerminal(const WatchAsks& asks) {
  bool asks_now = false;
  absl::Status end;
  {
    Watch watch(asks);
    end = watch.Run();
    asks_now = watch.asks_now();
  }
  if (!end.ok()) return Complain(end);
  if (asks_now) std::_Exit(0);  // its thread may wait for an answer for some seconds, which nobody does
  return 0;
}

int WatchAsText(const WatchAsks& asks, const std::function<std::string(const v1::JobView& view)>& show) {
  BootTime answered_at = absl::InfinitePast();
  while (true) {
    const absl::StatusOr<v1::JobView> view = asks.view();
    const BootTime now = EventLoop::Now();
    if (!view.ok() && now >= answered_at + kPatience) return CannotTell(view.status());
    if (!view.ok()) {  // a coordinator may just be replaced
      Complain(view.status());
      absl::SleepFor(kLookEvery);
      continue;
    }
    answered_at = now;
    if (const int code = Print(show(*view)); code != 0) return code;
    if (view->state() == v1::JobView::STATE_ENDING) return CodeOf(*view);
    absl::SleepFor(kLookEvery);
  }
}

}  // namespace muster::cli
