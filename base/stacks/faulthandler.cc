#include "base/stacks/faulthandler.h"

#include <string>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/core/status_macros.h"
#include "base/text/utf8.h"

namespace muster {
namespace {

constexpr absl::string_view kHeader = "Stack (most recent call first):";

std::string Text(absl::string_view text) { return ToUtf8({text.data(), text.size()}, kMaxFrameText); }

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
    Frame frame;
    if (line == kHeader) {
      threads = {{.name = "MainThread", .is_main = true, .frames = {}}};
    } else if (!threads.empty() && threads[0].frames.size() < kMaxFrames && ParseFrame(line, &frame)) {
      if (!IsOfImport(frame.file)) threads[0].frames.push_back(std::move(frame));
    }
  }
  if (threads.empty()) return absl::InvalidArgumentError("no stack");
  return threads;
}

}  // namespace muster
