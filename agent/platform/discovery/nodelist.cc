// list  := item (separator+ item)*        separators are outside of brackets
// item  := (text? '[' range (',' range)* ']')* text?
// range := digits ('-' digits)?           as wide as its first number is written
#include "agent/platform/discovery/nodelist.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <optional>
#include <unordered_set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "agent/platform/discovery/address.h"
#include "base/core/status_macros.h"
#include "base/text/problem.h"

namespace muster::discovery {
namespace {

constexpr std::string_view kSeparators = ", \t\n";
constexpr size_t kMaxDigits = 18;  // of one number, including leading zeros
constexpr char kGrammar[] = "node names as Slurm writes them, gpu-[08-11],login1";
constexpr char kAdvice[] = "correct it, or give --nnodes, --node-rank and --master-addr";

struct Range {
  uint64_t low = 0;
  uint64_t high = 0;
  size_t width = 0;

  uint64_t size() const { return high - low + 1; }
};

struct Group {
  std::string_view before;  // the text before its bracket
  std::vector<Range> ranges;
  size_t range = 0;  // the current position of the expansion
  uint64_t number = 0;

  void Rewind() {
    range = 0;
    number = ranges.front().low;
  }

  // Advances to the next number. False: it was the last one, and the position is the first number again.
  bool Next() {
    if (number < ranges[range].high) {
      ++number;
      return true;
    }
    if (++range < ranges.size()) {
      number = ranges[range].low;
      return true;
    }
    Rewind();
    return false;
  }
};

struct Item {
  std::vector<Group> groups;
  std::string_view after;  // the text after the last bracket
};

std::optional<uint64_t> Number(std::string_view text) {
  uint64_t number = 0;
  if (text.empty() || text.size() > kMaxDigits) return std::nullopt;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() ? std::optional(number) : std::nullopt;
}

// [1-3] names nodes by plain numbers, which Slurm allows.
bool IsNumber(std::string_view name) {
  return !name.empty() && name.size() <= kMaxLabelChars && name.find_first_not_of("0123456789") == name.npos;
}

std::string Padded(uint64_t number, size_t width) {
  const std::string digits = std::to_string(number);
  return std::string(digits.size() < width ? width - digits.size() : 0, '0') + digits;
}

class NodelistReader {
 public:
  NodelistReader(const std::string& variable, size_t max_nodes) : variable_(variable), max_nodes_(max_nodes) {}

  absl::StatusOr<std::vector<std::string>> Run(std::string_view text) {
    if (text.size() > kMaxNodelistBytes) return Wrong(text, absl::StrCat("at most ", kMaxNodelistBytes, " bytes"));
    while (true) {
      text.remove_prefix(std::min(text.find_first_not_of(kSeparators), text.size()));
      if (text.empty()) break;
      const std::string_view item = text.substr(0, EndOfItem(text));
      RETURN_IF_ERROR(TakeItem(item));
      text.remove_prefix(item.size());
    }
    if (hosts_.empty()) return Wrong("", kGrammar);
    return std::move(hosts_);
  }

 private:
  static size_t EndOfItem(std::string_view text) {
    bool inside = false;
    for (size_t i = 0; i < text.size(); ++i) {
      if (text[i] == '[') inside = true;
      if (text[i] == ']') inside = false;
      if (!inside && kSeparators.find(text[i]) != std::string_view::npos) return i;
    }
    return text.size();
  }

  absl::Status TakeItem(std::string_view text) {
    ASSIGN_OR_RETURN(Item item, ParseItem(text));
    uint64_t names = 1;
    for (Group& group : item.groups) {
      uint64_t numbers = 0;  // no overflow: each range, and the sum before it, is at most max_nodes_
      for (const Range& range : group.ranges) {
        if (range.size() > max_nodes_) return TooMany(text);
        numbers += range.size();
        if (numbers > max_nodes_) return TooMany(text);
      }
      names *= numbers;
      if (names > max_nodes_) return TooMany(text);
      group.Rewind();
    }
    if (hosts_.size() + names > max_nodes_) return TooMany(text);
    return Expand(text, &item);
  }

  absl::StatusOr<Item> ParseItem(std::string_view text) const {
    Item item;
    std::string_view rest = text;
    for (size_t open = rest.find('['); open != std::string_view::npos; open = rest.find('[')) {
      const size_t close = rest.find(']', open);
      if (close == std::string_view::npos) return Wrong(text, "a ']' for each '['");
      Group group{rest.substr(0, open), {}, 0, 0};
      for (const absl::string_view range : absl::StrSplit(AsAbsl(rest.substr(open + 1, close - open - 1)), ',')) {
        ASSIGN_OR_RETURN(const Range parsed, ParseRange(text, AsStd(range)));
        group.ranges.push_back(parsed);
      }
      item.groups.push_back(std::move(group));
      rest.remove_prefix(close + 1);
    }
    item.after = rest;
    return item;
  }

  absl::StatusOr<Range> ParseRange(std::string_view item, std::string_view text) const {
    const size_t dash = text.find('-');
    const std::string_view first = text.substr(0, dash);
    const std::optional<uint64_t> low = Number(first);
    const std::optional<uint64_t> high = dash == std::string_view::npos ? low : Number(text.substr(dash + 1));
    if (!low || !high || *low > *high)
      return Wrong(item, "numbers, or ranges from the smaller to the greater, between '[' and ']'");
    return Range{*low, *high, first.size()};
  }

  // The numbers of the last group vary fastest, then those of the first, the second, ...: Slurm's order. For two
  // groups it is the usual one.
  absl::Status Expand(std::string_view text, Item* item) {
    std::vector<Group>& groups = item->groups;
    while (true) {
      RETURN_IF_ERROR(TakeName(text, NameOf(*item)));
      if (groups.empty() || groups.back().Next()) {
        if (groups.empty()) return absl::OkStatus();
        continue;
      }
      size_t turning = 0;
      while (turning + 1 < groups.size() && !groups[turning].Next()) ++turning;
      if (turning + 1 >= groups.size()) return absl::OkStatus();
    }
  }

  static std::string NameOf(const Item& item) {
    std::string name;
    for (const Group& group : item.groups) {
      name.append(group.before).append(Padded(group.number, group.ranges[group.range].width));
    }
    return name.append(item.after);
  }

  absl::Status TakeName(std::string_view item, std::string name) {
    const absl::StatusOr<Address> address = ParseAddress(name);
    if (!IsNumber(name) && (!address.ok() || address->port)) return Wrong(item, kGrammar);
    if (!seen_.insert(name).second)
      return Wrong(item, absl::StrCat("each node once, but ", Shown(name), " is there twice"));
    hosts_.push_back(std::move(name));
    return absl::OkStatus();
  }

  absl::Status TooMany(std::string_view item) const {
    return Wrong(item, absl::StrCat("at most ", max_nodes_, " nodes"));
  }

  absl::Status Wrong(std::string_view item, std::string expected) const {
    return ToStatus({variable_, "", std::string(item), std::move(expected), kAdvice});
  }

  const std::string& variable_;
  const size_t max_nodes_;
  std::vector<std::string> hosts_;
  std::unordered_set<std::string> seen_;
};

// "72(x2)" as 72 and 2, "36" as 36 and 1.
std::optional<std::pair<int, size_t>> ParseCount(std::string_view text) {
  constexpr std::string_view kTimes = "(x";
  const size_t open = text.find(kTimes);
  const std::optional<uint64_t> number = Number(text.substr(0, open));
  std::optional<uint64_t> times = 1;
  if (open != std::string_view::npos) {
    if (!text.ends_with(')')) return std::nullopt;
    text.remove_suffix(1);
    times = Number(text.substr(open + kTimes.size()));
  }
  if (!number || *number > uint64_t{kMaxNodelistCount}) return std::nullopt;
  if (!times || *times < 1 || *times > kMaxNodelistHosts) return std::nullopt;
  return std::pair(static_cast<int>(*number), static_cast<size_t>(*times));
}

}  // namespace

absl::StatusOr<std::vector<std::string>> ExpandNodelist(const std::string& variable, std::string_view text,
                                                        size_t max_nodes) {
  return NodelistReader(variable, max_nodes).Run(text);
}

absl::StatusOr<std::vector<int>> ExpandCounts(const std::string& variable, std::string_view text,
                                              size_t max_nodes) {
  const auto wrong = [&](std::string expected) {
    return ToStatus({variable, "", std::string(text), std::move(expected), kAdvice});
  };
  if (text.size() > kMaxNodelistBytes) return wrong(absl::StrCat("at most ", kMaxNodelistBytes, " bytes"));
  std::vector<int> counts;
  for (const absl::string_view item : absl::StrSplit(AsAbsl(text), ',')) {
    const auto count = ParseCount(AsStd(item));
    if (!count) return wrong("counts as Slurm writes them, 8(x2),4");
    if (counts.size() + count->second > max_nodes) {
      return wrong(absl::StrCat("counts of at most ", max_nodes, " nodes"));
    }
    counts.insert(counts.end(), count->second, count->first);
  }
  return counts;
}

}  // namespace muster::discovery
