#include "base/text/exception_text.h"

#include <algorithm>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace muster {
namespace {

constexpr char kHeader[] = "Traceback (most recent call last)";
constexpr char kFrame[] = "File \"";
// What C++ says of an exception that nobody has caught.
constexpr char kTerminate[] = "terminate called";
constexpr char kThrown[] = "what():";

using Lines = std::vector<absl::string_view>;

bool IsIndented(absl::string_view line) {
  return !line.empty() && absl::ascii_isspace(static_cast<unsigned char>(line[0]));
}

// "[rank3]: ", with which torch's hook begins the lines of an exception that nobody has caught; empty: another
// line.
absl::string_view RankPrefix(absl::string_view line) {
  constexpr absl::string_view kBegin = "[rank", kEnd = "]: ";
  if (!absl::StartsWith(line, kBegin)) return "";
  size_t end = kBegin.size();
  while (end < line.size() && absl::ascii_isdigit(static_cast<unsigned char>(line[end]))) ++end;
  const bool is_prefix = end > kBegin.size() && absl::StartsWith(line.substr(end), kEnd);
  return is_prefix ? line.substr(0, end + kEnd.size()) : "";
}

// The last exception that torch's hook has printed, without the prefixes; its beginning may be missing.
Lines PrintedByTorch(const Lines& lines) {
  size_t end = lines.size();
  while (end > 0 && RankPrefix(lines[end - 1]).empty()) --end;
  size_t begin = end;
  while (begin > 0 && (lines[begin - 1].empty() || !RankPrefix(lines[begin - 1]).empty())) --begin;
  Lines block;
  for (; begin < end; ++begin) block.push_back(lines[begin].substr(RankPrefix(lines[begin]).size()));
  const bool has_frames = std::any_of(block.begin(), block.end(), [](absl::string_view line) {
    return absl::StrContains(line, kHeader) || (IsIndented(line) && absl::StrContains(line, kFrame));
  });
  return has_frames ? block : Lines{};
}

// What follows the frames of the last traceback.
std::string Message(const Lines& lines) {
  auto begin = std::find_if(lines.rbegin(), lines.rend(), [](absl::string_view line) {
                 return absl::StrContains(line, kHeader);
               }).base();
  while (begin != lines.end() && (begin->empty() || IsIndented(*begin))) ++begin;
  return absl::StrJoin(begin, lines.end(), "\n");
}

}  // namespace

std::string FinalMessage(const std::string& text) {
  const Lines lines = absl::StrSplit(text, '\n');
  if (const Lines printed = PrintedByTorch(lines); !printed.empty()) return Message(printed);
  size_t thrown = text.rfind(kTerminate);
  if (thrown == std::string::npos) thrown = text.rfind(kThrown);
  if (thrown != std::string::npos && text.find(kHeader, thrown) == std::string::npos) return text.substr(thrown);
  const auto last = std::find_if(lines.rbegin(), lines.rend(),
                                 [](absl::string_view line) { return !line.empty() && !IsIndented(line); });
  return last == lines.rend() ? "" : std::string(*last);
}

bool EndsWithException(const std::string& text) {
  const Lines lines = absl::StrSplit(absl::StripTrailingAsciiWhitespace(text), '\n');
  if (!PrintedByTorch(lines).empty()) return true;
  if (lines.back().empty() || IsIndented(lines.back())) return false;
  auto line = std::next(lines.rbegin());
  bool has_frame = false;
  for (; line != lines.rend() && IsIndented(*line); ++line) has_frame |= absl::StrContains(*line, kFrame);
  return has_frame && (line == lines.rend() || absl::StrContains(*line, kHeader));
}

}  // namespace muster
