// All foreign values in messages are escaped here, so that none of them can add a second line to a log, and their
// secrets are masked.
#include "base/text/problem.h"

#include "absl/strings/str_format.h"
#include "base/text/mask_secrets.h"

namespace muster {
namespace {

constexpr char kDefaultAdvice[] = "correct it, or unset it and give --nnodes, --node-rank and --master-addr";

std::string EscapedByte(unsigned char byte) {
  switch (byte) {
    case '\n':
      return "\\n";
    case '\r':
      return "\\r";
    case '\t':
      return "\\t";
    default:
      return absl::StrFormat("\\x%02x", byte);
  }
}

std::string Escaped(char c) {
  const unsigned char byte = static_cast<unsigned char>(c);
  return (byte >= 0x20 && byte < 0x7f) ? std::string(1, c) : EscapedByte(byte);
}

}  // namespace

std::string Shown(std::string_view text) {
  constexpr std::string_view kCut = "...";
  std::string shown;
  size_t kept = 0;  // length that leaves room for kCut
  for (const char c : MaskText(text)) {
    shown += Escaped(c);
    if (shown.size() <= kMaxShownChars - kCut.size()) kept = shown.size();
    if (shown.size() > kMaxShownChars) return shown.substr(0, kept).append(kCut);
  }
  return shown;
}

absl::Status ToStatus(const Problem& problem) {
  std::string line = Shown(problem.source);  // the name of a variable may contain foreign text, too
  if (!problem.field.empty()) line.append(": ").append(Shown(problem.field));
  if (!problem.value.has_value()) {
    line.append(" is missing");
  } else if (problem.value->empty()) {
    line.append(" is empty");
  } else {
    line.append(" is ").append(Shown(*problem.value));
  }
  line.append(": expected ").append(problem.expected);
  line.append("; ").append(problem.advice.empty() ? kDefaultAdvice : problem.advice);
  // `expected` may contain an unescaped foreign value; the result must still be one line.
  std::string printable;
  for (const char c : line) printable += Escaped(c);
  return absl::InvalidArgumentError(printable);
}

absl::Status UnreadableFile(std::string_view source, std::string_view path, const absl::Status& reason,
                            std::string_view advice) {
  std::string line = Shown(source).append(" ").append(Shown(path)).append(": ");
  if (absl::IsNotFound(reason)) {
    line.append("file not found");
  } else {
    std::string_view why(reason.message().data(), reason.message().size());
    const std::string prefix = std::string(path).append(": ");
    if (why.starts_with(prefix)) why.remove_prefix(prefix.size());
    line.append("cannot be read: ").append(Shown(why));
  }
  return absl::InvalidArgumentError(line.append("; ").append(advice));
}

}  // namespace muster
