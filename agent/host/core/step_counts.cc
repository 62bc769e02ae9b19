#include "agent/host/core/step_counts.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstddef>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "base/ranges.h"
#include "base/status_macros.h"

namespace muster::host {
namespace {

constexpr std::array<std::string_view, 4> kWords = {"step", "iter", "iteration", "batch"};
constexpr size_t kMostBetween = 3;  // characters between a word and its number: " = ", ": [", "/"
constexpr size_t kMaxDigits = 15;

bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsLetter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

// The digits that begin at `at`, as a number.
std::optional<int64_t> NumberAt(std::string_view text, size_t at) {
  size_t end = at;
  while (end < text.size() && IsDigit(text[end])) ++end;
  int64_t number = 0;
  if (end == at || end - at > kMaxDigits || !absl::SimpleAtoi(AsAbsl(text.substr(at, end - at)), &number))
    return std::nullopt;
  return number;
}

// Whether the letters that end before `end` are one of the words.
bool EndsInWord(std::string_view text, size_t end) {
  size_t begin = end;
  while (begin > 0 && IsLetter(text[begin - 1])) --begin;
  std::string_view word = text.substr(begin, end - begin);
  if (!word.empty() && (word.back() == 's' || word.back() == 'S')) word.remove_suffix(1);
  return std::any_of(kWords.begin(), kWords.end(),
                     [word](auto one) { return absl::EqualsIgnoreCase(AsAbsl(word), AsAbsl(one)); });
}

// "step 120": the number at `at` follows a word.
bool FollowsWord(std::string_view text, size_t at) {
  size_t end = at;
  while (end > 0 && at - end < kMostBetween && !IsLetter(text[end - 1]) && !IsDigit(text[end - 1]) &&
         text[end - 1] != '\n') {
    --end;
  }
  return end < at && EndsInWord(text, end);
}

// tqdm's "| 120/1000 [".
bool IsOfABar(std::string_view text, size_t at) {
  if (at < 2 || text[at - 1] != ' ' || text[at - 2] != '|') return false;
  size_t slash = at;
  while (slash < text.size() && IsDigit(text[slash])) ++slash;
  size_t end = slash + 1;
  while (end < text.size() && IsDigit(text[end])) ++end;
  return slash < text.size() && text[slash] == '/' && end > slash + 1 && text.substr(end, 2) == " [";
}

}  // namespace

std::optional<int64_t> StepIn(std::string_view lines) {
  for (size_t at = lines.size(); at-- > 0;) {
    const bool begins = IsDigit(lines[at]) && (at == 0 || !IsDigit(lines[at - 1]));
    if (!begins || !(FollowsWord(lines, at) || IsOfABar(lines, at))) continue;
    if (const std::optional<int64_t> number = NumberAt(lines, at)) return number;
  }
  return std::nullopt;
}

void StepCounts::OnSeen(const StepsSeen& seen) {
  const auto is_here = [this](int local_rank) { return local_rank >= 0 && local_rank < std::ssize(workers_); };
  for (const int local_rank : seen.touched) {
    if (is_here(local_rank)) ++workers_[static_cast<size_t>(local_rank)].touches;
  }
  for (const auto& [local_rank, number] : seen.numbers) {
    if (!is_here(local_rank)) continue;
    Worker& worker = workers_[static_cast<size_t>(local_rank)];
    worker.steps += worker.number ? std::max<int64_t>(0, number - *worker.number) : 1;
    worker.number = number;
  }
}

std::vector<int64_t> StepCounts::Counts() const {
  std::vector<int64_t> counts;
  for (const Worker& worker : workers_) {
    if (counts.size() == kMaxRanksSent) break;
    counts.push_back(std::min<int64_t>(kMaxCount, worker.touches > 0 ? worker.touches : worker.steps));
  }
  return counts;
}

}  // namespace muster::host
