#include "cli/status/name_ranges.h"

#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

namespace muster::cli {
namespace {

constexpr size_t kMaxDigits = 9;

// "gpu-08.local" in parts: "gpu-", 8 of two digits, ".local".
struct Numbered {
  std::string before, after;
  size_t digits = 0;
  int number = 0;
};

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

// The last number of the name; digits of 0: it has none.
Numbered Parsed(const std::string& name) {
  size_t end = name.size();
  while (end > 0 && !IsDigit(name[end - 1])) --end;
  size_t begin = end;
  while (begin > 0 && IsDigit(name[begin - 1]) && end - begin < kMaxDigits) --begin;
  Numbered parts{name.substr(0, begin), name.substr(end), end - begin, 0};
  if (parts.digits > 0 && absl::SimpleAtoi(name.substr(begin, parts.digits), &parts.number)) return parts;
  return {name, "", 0, 0};
}

std::string Ranges(const std::set<int>& numbers, size_t width) {
  std::vector<std::string> ranges;
  for (auto at = numbers.begin(); at != numbers.end();) {
    const int first = *at;
    int last = first;
    while (++at != numbers.end() && *at == last + 1) ++last;
    const int digits = static_cast<int>(width);
    ranges.push_back(first == last ? absl::StrFormat("%0*d", digits, first)
                                   : absl::StrFormat("%0*d-%0*d", digits, first, digits, last));
  }
  const bool one = numbers.size() == 1;
  return one ? ranges.front() : absl::StrCat("[", absl::StrJoin(ranges, ","), "]");
}

}  // namespace

// Where one of them has leading zeros ("gpu-08"), those with as many digits go together, else all ("gpu-9",
// "gpu-10").
std::string NameRanges(const std::vector<std::string>& names) {
  std::set<std::pair<std::string, std::string>> padded;
  for (const std::string& name : names) {
    const Numbered parts = Parsed(name);
    if (absl::StrCat(parts.number).size() < parts.digits) padded.emplace(parts.before, parts.after);
  }
  std::map<std::tuple<std::string, std::string, size_t>, std::set<int>> groups;
  for (const std::string& name : names) {
    const Numbered parts = Parsed(name);
    const size_t width = padded.count({parts.before, parts.after}) > 0 ? parts.digits : 1;
    std::set<int>& numbers = groups[{parts.before, parts.after, width}];
    if (parts.digits > 0) numbers.insert(parts.number);
  }
  std::vector<std::string> shown;
  for (const auto& [key, numbers] : groups) {
    const auto& [before, after, width] = key;
    shown.push_back(absl::StrCat(before, numbers.empty() ? "" : Ranges(numbers, width), after));
  }
  return absl::StrJoin(shown, ",");
}

}  // namespace muster::cli
