#include "base/picture/faulthandler.h"

#include <algorithm>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"
#include "base/utf8.h"

namespace muster {
namespace {

constexpr absl::string_view kMostRecentFirst = " (most recent call first):";
constexpr absl::string_view kWriter = "Current thread ";
constexpr absl::string_view kOther = "Thread ";

std::string Text(absl::string_view text) { return ToUtf8({text.data(), text.size()}, kMaxFrameText); }

// `Thread 0x00007f3a2c000700 [pin memory] (most recent call first):`. The name is given from 3.14 on.
bool ParseThread(absl::string_view line, PythonThread* thread) {
  if (!absl::ConsumeSuffix(&line, kMostRecentFirst)) return false;
  thread->is_main = absl::ConsumePrefix(&line, kWriter);
  if (!thread->is_main && !absl::ConsumePrefix(&line, kOther)) return false;
  const size_t name = line.find(" [");
  if (name != absl::string_view::npos && absl::ConsumeSuffix(&line, "]")) {
    thread->name = Text(line.substr(name + 2));
  } else {
    thread->name = thread->is_main ? "MainThread" : Text(line.substr(0, line.find(' ')));
  }
  return true;
}

// `  File "/j/train.py", line 88 in step`. The name of a file may itself have quotes, which are not escaped.
bool ParseFrame(absl::string_view line, Frame* frame) {
  constexpr absl::string_view kBeforeLine = "\", line ";
  if (!absl::ConsumePrefix(&line, "  File \"")) return false;
  const size_t file_ends = line.rfind(kBeforeLine);
  if (file_ends == absl::string_view::npos) return false;
  const absl::string_view rest = line.substr(file_ends + kBeforeLine.size());
  const size_t number_ends = rest.find(" in ");
  if (number_ends == absl::string_view::npos) return false;
  frame->file = Text(line.substr(0, file_ends));
  frame->function = Text(rest.substr(number_ends + 4));
  // "???": the line is not known.
  if (!absl::SimpleAtoi(rest.substr(0, number_ends), &frame->line) || frame->line < 0) frame->line = 0;
  return true;
}

}  // namespace

absl::StatusOr<std::vector<PythonThread>> ParseFaulthandler(std::string_view text) {
  std::vector<PythonThread> threads;
  for (const absl::string_view line : absl::StrSplit(AsAbsl(text), '\n')) {
    PythonThread thread;
    Frame frame;
    if (ParseThread(line, &thread)) {
      threads.push_back(std::move(thread));
    } else if (!threads.empty() && threads.back().frames.size() < kMaxFrames && ParseFrame(line, &frame)) {
      threads.back().frames.push_back(std::move(frame));
    }
  }
  std::stable_partition(threads.begin(), threads.end(), [](const PythonThread& each) { return each.is_main; });
  if (threads.empty() || !threads.front().is_main) {
    return absl::InvalidArgumentError("without the thread that wrote it");
  }
  if (threads.size() > kMaxPythonThreads) threads.resize(kMaxPythonThreads);
  return threads;
}

}  // namespace muster
