#include "agent/host/report/failure_details.h"

#include <array>
#include <chrono>
#include <csignal>
#include <utility>
#include <vector>

#include "base/io/bounded_call.h"
#include "base/io/event_loop.h"
#include "base/text/exception_text.h"
#include "base/text/text.h"
#include "base/text/utf8.h"

namespace muster::host {
namespace {

// What C++ says of an exception that nobody has caught. Many lines of stacks may follow.
constexpr char kThrown[] = "  what():  ";

bool HasEnded(const FailureDetails::Stream& stream) { return !stream.tail || stream.tail->ended(); }

// Those that may tell why the worker failed, in this order. Where muster does not get standard error, which leads
// to a terminal, say, nobody knows whether that is empty, and standard output is no answer.
std::vector<const FailureDetails::Stream*> Speakers(const FailureDetails::Sources& sources) {
  const bool is_seen = sources.err.tail || !sources.err.file.empty();
  return is_seen ? std::vector<const FailureDetails::Stream*>{&sources.err, &sources.out}
                 : std::vector<const FailureDetails::Stream*>();
}

// Standard output speaks only where standard error is empty. A slow console may hold it back for long.
bool IsHeardOut(const FailureDetails::Sources& sources) {
  if (!HasEnded(sources.err)) return false;
  const bool waits = sources.err.tail && sources.err.tail->Last().empty();
  return !waits || HasEnded(sources.out);
}

struct Words {
  std::string last;
  std::optional<absl::Time> at;
  std::string thrown;
};

Words WordsIn(const OutputTail& tail) { return {tail.Last(), tail.fed_at(), tail.LastWith(kThrown)}; }

Words WordsIn(const std::string& path) {
  const std::string end = EndOfFile(path);
  return {LastLines(end), ModifiedAt(path), LastLineWith(kThrown, end)};
}

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
  if (found != sources_.end()) ReadFiles(found->second, ending);
  const auto reason = reasons_.find(local_rank);
  if (reason == reasons_.end()) return;
  const std::string own = std::move(ending->error_text);
  ending->error_text = ToUtf8(reason->second + (own.empty() ? "" : "\n" + own), kMaxErrorText);
}

// One thread reads both, since many workers end at once.
void FailureDetails::ReadFiles(const Sources& sources, Ending* ending) {
  const std::string &done_file = sources.done_file, &error_file = sources.error_file;
  if (done_file.empty() && error_file.empty()) return;
  const auto files = InTime([done_file, error_file, exists = exists_, read = read_] {
    const bool done = !done_file.empty() && exists(done_file);
    return std::pair(done, error_file.empty() ? std::nullopt : read(error_file));
  });
  if (!files && !error_file.empty())
    ending->error_text = "the error file could not be read: its file system does not answer";
  if (!files) return;
  const auto& [done, error] = *files;
  ending->done = done;
  if (!error) return;
  ending->error_text = error->message;
  ending->callstack = error->callstack;
  ending->failed_at_s = error->failed_at_s;
  ending->reported_at = error->written_at;
  if (sources.kept) ending->error_file = ToUtf8(error_file, kMaxErrorText);
}

bool FailureDetails::HasHeardOut(int local_rank) const {
  const auto found = sources_.find(local_rank);
  return found == sources_.end() || IsHeardOut(found->second);
}

void FailureDetails::AddLastWords(int local_rank, Ending* ending) {
  const auto found = sources_.find(local_rank);
  if (found == sources_.end()) return;
  Words words;
  for (const Stream* stream : Speakers(found->second)) {
    if (stream->tail) {
      words = WordsIn(*stream->tail);
    } else if (!stream->file.empty()) {
      words = InTime([path = stream->file] { return WordsIn(path); }).value_or(Words());
    }
    if (words.last.empty()) continue;
    // A program prints many things that sound like the loss of a peer: of standard output an exception alone
    // counts.
    if (stream == &found->second.out && !EndsWithException(words.last)) words.last.clear();
    break;
  }
  ending->last_words = words.last;
  ending->spoke_at = words.at;
  const bool aborted = ending->by_signal && ending->number == SIGABRT;
  if (aborted && ending->error_text.empty()) ending->error_text = CutUtf8(words.thrown, kMaxErrorText);
}

// Without a thread nothing is read: the host must not wait for a file system, and few processes are left by then.
std::function<std::string()> FailureDetails::OutputNow(int local_rank) const {
  const auto found = sources_.find(local_rank);
  if (found == sources_.end()) return [] { return std::string(); };
  return [streams = std::array<Stream, 2>{found->second.out, found->second.err}] {
    Words newest;
    for (const Stream& stream : streams) {
      if (!stream.tail && stream.file.empty()) continue;
      Words words = stream.tail ? WordsIn(*stream.tail) : WordsIn(stream.file);
      const bool is_newer = words.at.value_or(absl::InfinitePast()) > newest.at.value_or(absl::InfinitePast());
      if (!words.last.empty() && (newest.last.empty() || is_newer)) newest = std::move(words);
    }
    return newest.last;
  };
}

void FailureDetails::BeginLastOutput(int local_rank) {
  last_lines_ = {};
  const auto found = sources_.find(local_rank);
  if (found == sources_.end()) return;
  std::vector<std::string> files;
  for (const Stream* stream : Speakers(found->second)) {
    if (!stream->tail && !stream->file.empty()) files.push_back(stream->file);
  }
  if (files.empty()) return;
  auto reading = CallAside([files = std::move(files), read = read_lines_] {
    std::string lines;
    for (size_t i = 0; i < files.size() && lines.empty(); ++i) lines = read(files[i]);
    return lines;
  });
  if (reading) last_lines_ = *std::move(reading);
}

bool FailureDetails::Complete(int local_rank) const {
  if (!HasHeardOut(local_rank)) return false;
  return !last_lines_.valid() || last_lines_.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
}

std::string FailureDetails::LastOutput(int local_rank) {
  const auto found = sources_.find(local_rank);
  if (found == sources_.end()) return "";
  const bool has_read = last_lines_.valid() && Complete(local_rank);
  std::string of_files = has_read ? last_lines_.get() : "";
  for (const Stream* stream : Speakers(found->second)) {
    std::string lines = stream->tail ? stream->tail->Last() : std::exchange(of_files, "");
    if (!lines.empty()) return lines;
  }
  return "";
}

}  // namespace muster::host
