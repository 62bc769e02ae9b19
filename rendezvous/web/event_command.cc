#include "rendezvous/web/event_command.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/core/status_macros.h"
#include "base/io/bounded_call.h"
#include "base/proc/run_program.h"
#include "base/text/text.h"
#include "base/text/utf8.h"
#include "rendezvous/web/event_json.h"

namespace muster::rendezvous {
namespace {

constexpr size_t kMaxSaidBytes = 512;  // of a failed command's last line

absl::Status RunWith(const std::string& command, const std::string& line) {
  const absl::StatusOr<ProgramResult> result =
      RunProgram({"sh", "-c", absl::StrCat("exec 2>&1\n", command)}, kEventCommandLimit, line);
  if (!result.ok()) return result.status();
  if (result->exit_code == 0) return absl::OkStatus();
  const std::string said = CutUtf8(LastLine(result->output), kMaxSaidBytes);
  return absl::UnknownError(absl::StrCat("exit code ", result->exit_code, said.empty() ? "" : ": ", said));
}

}  // namespace

bool IsWanted(const v1::Event& event, const std::vector<std::string>& names) {
  if (names.empty()) return event.is_bad() && event.name() != events::kNodeRefused;
  return std::any_of(names.begin(), names.end(),
                     [&](const std::string& name) { return name == kAllEvents || name == event.name(); });
}

EventCommand::EventCommand(Plan plan, std::function<void(const Note&)> note)
    : plan_(std::move(plan)), note_(std::move(note)) {}

void EventCommand::Tell(BootTime now, const v1::Events& news) {
  for (const v1::Event& event : news.newest()) {
    if (!IsWanted(event, plan_.names)) continue;
    if (lines_.size() < kMaxEventsQueued) {
      lines_.push_back(absl::StrCat(EventJson(event, plan_.run_id, absl::Now()), "\n"));
    } else if (!std::exchange(is_full_, true)) {
      Complain(now, absl::StrCat(kMaxEventsQueued, " events wait for it; it is not told of further ones"));
    }
  }
  TakeEnded(now);
  if (!running_ && !lines_.empty()) Begin();
}

void EventCommand::TakeEnded(BootTime now) {
  if (!running_ || running_->wait_for(std::chrono::seconds(0)) != std::future_status::ready) return;
  const absl::Status ended = running_->get();
  running_.reset();
  is_full_ = is_full_ && !lines_.empty();
  if (!ended.ok()) Complain(now, std::string(AsStd(ended.message())));
}

void EventCommand::Begin() {
  running_ = CallAside([command = plan_.command, line = lines_.front()] { return RunWith(command, line); });
  if (running_) lines_.pop_front();  // else no thread could be started: again
}

void EventCommand::Complain(BootTime now, const std::string& what) {
  if (complaints_.Take(now)) note_({Severity::kWarning, absl::StrCat("--on-event: ", OneLine(what))});
}

}  // namespace muster::rendezvous
