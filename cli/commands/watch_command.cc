#include "cli/commands/watch_command.h"

#include <poll.h>
#include <unistd.h>

#include <array>
#include <cerrno>
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

// Each time the terminal is measured, and an answer taken that has come.
constexpr absl::Duration kTick = absl::Milliseconds(100);

// Lives on the loop thread.
class Watch {
 public:
  explicit Watch(const WatchAsks& asks) : asks_(asks), colour_(std::getenv("NO_COLOR") == nullptr) {}

  absl::Status Run();
  bool asks_now() const { return view_.has_value() || stacks_.has_value() || end_.has_value(); }

 private:
  using Answer = absl::StatusOr<v1::JobView>;
  using Pending = std::optional<std::future<Answer>>;  // a question that a thread has asked

  static std::optional<Answer> Take(Pending* pending);  // nullopt: it is not there yet
  void OnInput(uint32_t events);
  void Tick();
  void TakeAnswers();
  void AskIfDue();
  void Draw();

  const WatchAsks asks_;
  const bool colour_;
  EventLoop loop_;
  RawTerminal terminal_;
  WatchScreen screen_;
  Pending view_, stacks_;
  std::optional<std::future<absl::StatusOr<v1::JobEnd>>> end_;
  bool has_ended_ = false;
  bool wants_stacks_ = false;
  bool has_view_ = false;
  absl::Status failed_;
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
  return failed_;
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
  TakeAnswers();
  AskIfDue();
  Draw();
  loop_.After(kTick, [this] { Tick(); });
}

std::optional<Watch::Answer> Watch::Take(Pending* pending) {
  if (!*pending || (*pending)->wait_for(std::chrono::seconds(0)) != std::future_status::ready) return std::nullopt;
  Answer answer = (*pending)->get();
  pending->reset();
  return answer;
}

void Watch::TakeAnswers() {
  if (end_ && end_->wait_for(std::chrono::seconds(0)) == std::future_status::ready) {
    const absl::StatusOr<v1::JobEnd> end = end_->get();
    end_.reset();
    has_ended_ = end.ok();
    if (end.ok()) screen_.ShowEnd(*end);
  }
  if (const std::optional<Answer> answer = Take(&stacks_)) {
    const absl::StatusOr<v1::JobView>& view = *answer;
    screen_.ShowStacks(view.ok() ? StacksText(*view) : OneLine(std::string(AsStd(view.status().message()))));
  }
  const std::optional<Answer> answer = Take(&view_);
  if (!answer) return;
  if (answer->ok()) {
    screen_.Show(**answer);
    has_view_ = true;
    answered_at_ = EventLoop::Now();
  } else if (has_ended_) {
    return;
  } else if (!has_view_ && (!MayPass(answer->status()) || EventLoop::Now() >= answered_at_ + kPatience)) {
    failed_ = answer->status();
    loop_.Stop();
  } else {
    screen_.ShowProblem(std::string(AsStd(answer->status().message())));
  }
}

void Watch::AskIfDue() {
  const BootTime now = EventLoop::Now();
  if (!view_ && !has_ended_ && now >= look_at_) {
    look_at_ = now + kLookEvery;
    view_ = CallAside(asks_.view);
    if (!end_ && asks_.end) end_ = CallAside(asks_.end);
  }
  if (!wants_stacks_ || stacks_) return;
  stacks_ = CallAside(asks_.stacks);
  wants_stacks_ = !stacks_;  // no thread could be started: again
}

void Watch::Draw() {
  const Size size = RawTerminal::Measure();
  std::string frame = Frame(screen_.Rows(size, EventLoop::Now() - answered_at_), size, colour_);
  if (frame == drawn_) return;
  drawn_ = std::move(frame);
  for (std::string_view rest = drawn_; !rest.empty();) {
    const ssize_t count = write(STDOUT_FILENO, rest.data(), rest.size());
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) {  // another program may have made the terminal so
      pollfd polled = {STDOUT_FILENO, POLLOUT, 0};
      poll(&polled, 1, static_cast<int>(absl::ToInt64Milliseconds(kTick)));
      continue;
    }
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
  const int code = end.ok() ? 0 : CannotTell(end);
  if (asks_now) std::_Exit(code);  // its thread may wait for an answer for some seconds, which nobody does
  return code;
}

int WatchAsText(const WatchAsks& asks, absl::Duration every,
                const std::function<std::string(const v1::JobView& view)>& show,
                const std::function<int(const v1::JobEnd& end)>& show_end) {
  std::optional<std::future<absl::StatusOr<v1::JobEnd>>> end;  // since the first answer
  BootTime answered_at = absl::InfinitePast();
  while (true) {
    const absl::StatusOr<v1::JobView> view = asks.view();
    const BootTime now = EventLoop::Now();
    if (view.ok()) {
      answered_at = now;
      if (!end && asks.end) end = CallAside(asks.end);
      if (const int code = Print(show(*view)); code != 0) return code;
    } else if (now >= answered_at + kPatience) {
      return CannotTell(view.status());
    }
    if (!end) {
      absl::SleepFor(every);
    } else if (end->wait_for(absl::ToChronoMilliseconds(every)) == std::future_status::ready) {
      const absl::StatusOr<v1::JobEnd> how = end->get();
      return how.ok() ? show_end(*how) : CannotTell(how.status());
    }
  }
}

}  // namespace muster::cli
