#include "agent/host/report/failure_details.h"

#include <chrono>
#include <csignal>
#include <utility>

#include "base/io/bounded_call.h"
#include "base/io/event_loop.h"
#include "base/text/text.h"
#include "base/text/utf8.h"

namespace muster::host {
namespace {

// What C++ says of an exception that nobody has caught. Many lines of stacks may follow.
constexpr char kThrown[] = "  what():  ";

}  // namespace

void FailureDetails::BeginRound(absl::Duration limit) {
  left_ = limit;
  sources_.clear();
  reasons_.clear();
  last_lines_ = {};
}

void FailureDetails::Expect(int local_rank, Sources sources) { sources_[local_rank] = std::move(sources); }

void FailureDetails::AddReason(int local_rank, std::string reason) {
  reasons_.emplace(local_rank, std::move(reason));
}

// Runs a call within what is left of the round's limit. The limit is shared because many workers end at once, and
// the loop thread blocks for each of them in turn.
template <typename Call>
auto FailureDetails::InTime(Call call) -> std::optional<decltype(call())> {
  if (left_ <= absl::ZeroDuration()) return std::nullopt;
  const BootTime began = EventLoop::Now();
  auto result = CallWithin(left_, std::move(call));
  left_ = result ? left_ - (EventLoop::Now() - began) : absl::ZeroDuration();
  return result;
}

void FailureDetails::Explain(int local_rank, Ending* ending) {
  const auto found = sources_.find(local_rank);
  if (found != sources_.end() && !found->second.done_file.empty()) {
    ending->done =
        InTime([path = found->second.done_file, exists = exists_] { return exists(path); }).value_or(false);
  }
  if (found != sources_.end() && !found->second.error_file.empty()) {
    const std::string& path = found->second.error_file;
    const auto error = InTime([path, read = read_] { return read(path); });
    if (!error) {
      ending->error_text = "the error file could not be read: its file system does not answer";
    } else if (*error) {
      ending->error_text = (*error)->message;
      ending->callstack = (*error)->callstack;
      ending->failed_at_s = (*error)->failed_at_s;
      ending->reported_at = (*error)->written_at;
      if (found->second.kept) ending->error_file = ToUtf8(path, kMaxErrorText);
    }
  }
  const auto reason = reasons_.find(local_rank);
  if (reason == reasons_.end()) return;
  const std::string own = std::move(ending->error_text);
  ending->error_text = ToUtf8(reason->second + (own.empty() ? "" : "\n" + own), kMaxErrorText);
}

bool FailureDetails::HasHeardOut(int local_rank) const {
  const auto found = sources_.find(local_rank);
  return found == sources_.end() || !found->second.tail || found->second.tail->ended();
}

void FailureDetails::AddLastWords(int local_rank, Ending* ending) {
  const auto found = sources_.find(local_rank);
  if (found == sources_.end()) return;
  std::string thrown;
  if (const OutputTail* const tail = found->second.tail.get()) {
    ending->last_words = tail->Last();
    ending->spoke_at = tail->fed_at();
    thrown = tail->LastWith(kThrown);
  } else if (const std::string& path = found->second.stderr_file; !path.empty()) {
    const auto end = InTime([path] { return std::pair(EndOfFile(path), ModifiedAt(path)); });
    if (!end) return;
    ending->last_words = LastLines(end->first);
    ending->spoke_at = end->second;
    thrown = LastLineWith(kThrown, end->first);
  }
  const bool aborted = ending->by_signal && ending->number == SIGABRT;
  if (aborted && ending->error_text.empty()) ending->error_text = CutUtf8(thrown, kMaxErrorText);
}

// Without a thread nothing is read: the host must not wait for a file system, and few processes are left by then.
void FailureDetails::BeginLastOutput(int local_rank) {
  last_lines_ = {};
  const auto found = sources_.find(local_rank);
  if (found == sources_.end() || found->second.tail || found->second.stderr_file.empty()) return;
  auto reading = CallAside([path = found->second.stderr_file, read = read_lines_] { return read(path); });
  if (reading) last_lines_ = *std::move(reading);
}

bool FailureDetails::Complete(int local_rank) const {
  const auto found = sources_.find(local_rank);
  if (found == sources_.end()) return true;
  if (found->second.tail) return found->second.tail->ended();
  return !last_lines_.valid() || last_lines_.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
}

std::string FailureDetails::LastOutput(int local_rank) {
  const auto found = sources_.find(local_rank);
  if (found == sources_.end()) return "";
  if (found->second.tail) return found->second.tail->Last();
  return last_lines_.valid() && Complete(local_rank) ? last_lines_.get() : "";
}

}  // namespace muster::host
