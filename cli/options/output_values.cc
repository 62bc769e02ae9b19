#include "cli/options/output_values.h"

#include <signal.h>

#include <algorithm>
#include <cctype>
#include <charconv>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/core/note.h"
#include "base/core/status_macros.h"
#include "base/text/signal_name.h"
#include "cli/options/values.h"
#include "rendezvous/core/event_book.h"

namespace muster::cli {
namespace {

constexpr char kDefaultLocalRankName[] = "local-rank";
constexpr const char* kNumaBindings[] = {"node", "socket", "exclusive", "core-complex"};

absl::Status Expected(std::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("expected ", AsAbsl(what)));
}

absl::StatusOr<host::Streams> OneStream(std::string_view text) {
  ASSIGN_OR_RETURN(const int number, ParseInteger(text, kStreams));
  return static_cast<host::Streams>(number);
}

std::vector<std::string> SplitAtCommas(std::string_view text) { return absl::StrSplit(AsAbsl(text), ','); }

}  // namespace

host::Streams StreamChoice::Of(int local_rank) const {
  const auto found = by_rank.find(local_rank);
  return found == by_rank.end() ? everywhere : found->second;
}

bool StreamChoice::IsNothing() const {
  return everywhere == host::Streams::kNone && std::all_of(by_rank.begin(), by_rank.end(), [](const auto& entry) {
           return entry.second == host::Streams::kNone;
         });
}

absl::StatusOr<StreamChoice> ParseStreams(std::string_view text) {
  const std::string grammar =
      absl::StrCat("0 (none), 1 (stdout), 2 (stderr), 3 (both), or RANK:STREAMS,RANK:STREAMS, each RANK from ",
                   ShowBounds(kLocalRanks));
  StreamChoice choice;
  if (const auto all = OneStream(text); all.ok()) {
    choice.everywhere = *all;
    return choice;
  }
  for (const std::string& item : SplitAtCommas(text)) {
    const size_t colon = item.find(':');
    if (colon == std::string::npos) return Expected(grammar);
    const auto rank = ParseInteger(item.substr(0, colon), kLocalRanks);
    const auto streams = OneStream(std::string_view(item).substr(colon + 1));
    if (!rank.ok() || !streams.ok()) return Expected(grammar);
    choice.by_rank[*rank] = *streams;
  }
  return choice;
}

absl::StatusOr<std::vector<int>> ParseLocalRanks(std::string_view text) {
  std::vector<int> ranks;
  for (const std::string& item : SplitAtCommas(text)) {
    const auto rank = ParseInteger(std::string(absl::StripAsciiWhitespace(item)), kLocalRanks);
    if (!rank.ok()) {
      return Expected(
          absl::StrCat("local ranks separated by commas, such as 0,1,2, each from ", ShowBounds(kLocalRanks)));
    }
    ranks.push_back(*rank);
  }
  return ranks;
}

absl::StatusOr<std::vector<std::string>> ParseEventNames(std::string_view text) {
  std::vector<std::string> names;
  for (const absl::string_view name : absl::StrSplit(AsAbsl(text), ',')) {
    names.emplace_back(absl::StripAsciiWhitespace(name));
    if (names.back() == kAllEvents || rendezvous::IsJobEvent(names.back())) continue;
    std::string all = kAllEvents;
    for (const std::string_view one : rendezvous::JobEvents()) absl::StrAppend(&all, ", ", AsAbsl(one));
    return Expected(absl::StrCat("names of events, separated by commas: ", all));
  }
  return names;
}

absl::StatusOr<std::vector<std::string>> ParseFilters(std::string_view text) {
  std::vector<std::string> filters;
  std::string filter;
  const auto finish = [&] {
    const std::string trimmed(absl::StripAsciiWhitespace(filter));
    if (!trimmed.empty()) filters.push_back(trimmed);
    filter.clear();
  };
  for (size_t i = 0; i < text.size(); ++i) {
    const bool comma = text[i] == ',';
    const bool doubled = comma && i + 1 < text.size() && text[i + 1] == ',';
    if (comma && !doubled) {
      finish();
      continue;
    }
    filter += text[i];
    i += doubled ? 1 : 0;
  }
  finish();
  if (filters.empty()) return Expected("texts separated by commas");
  return filters;
}

std::string ShowLogSizes() { return absl::StrCat(kLeastLogBytes >> 10, "k to ", kMostLogBytes >> 30, "G"); }

absl::StatusOr<int64_t> ParseSize(std::string_view text) {
  int64_t unit = 1;
  std::string_view digits = text;
  if (!digits.empty()) {
    switch (std::tolower(static_cast<unsigned char>(digits.back()))) {
      case 'k':
        unit = int64_t{1} << 10;
        break;
      case 'm':
        unit = int64_t{1} << 20;
        break;
      case 'g':
        unit = int64_t{1} << 30;
        break;
      default:
        break;
    }
    if (unit > 1) digits.remove_suffix(1);
  }
  int64_t count = 0;
  const auto [rest, error] = std::from_chars(digits.data(), digits.data() + digits.size(), count);
  const bool whole = error == std::errc() && rest == digits.data() + digits.size();
  // The first comparison also keeps the product in range.
  if (!whole || count > kMostLogBytes / unit || count * unit < kLeastLogBytes) {
    return Expected(absl::StrCat("a size from ", ShowLogSizes(), ", such as 500k, 20M or 1G"));
  }
  return count * unit;
}

absl::StatusOr<SignalChoice> ParseSignals(std::string_view text) {
  SignalChoice choice;
  for (const std::string& item : SplitAtCommas(text)) {
    const std::string name(absl::StripAsciiWhitespace(item));
    if (name.empty()) continue;
    const int number = SignalNumber(name);
    if (number == SIGKILL || number == SIGSTOP || number == SIGCHLD) {
      return absl::InvalidArgumentError(absl::StrCat(name, " cannot be handled"));
    }
    if (number == 0) {
      choice.unknown.push_back(name);
    } else if (std::find(choice.numbers.begin(), choice.numbers.end(), number) == choice.numbers.end()) {
      choice.numbers.push_back(number);
    }
  }
  if (choice.numbers.empty() && choice.unknown.empty())
    return Expected("names of signals, such as SIGTERM,SIGUSR1");
  return choice;
}

absl::StatusOr<std::string> ParseNumaBinding(std::string_view text) {
  for (const char* known : kNumaBindings) {
    if (text == known) return std::string(text);
  }
  return Expected(absl::StrJoin(kNumaBindings, ", "));
}

absl::StatusOr<std::string> ParseOptionName(std::string_view text) {
  if (text.empty()) return std::string(kDefaultLocalRankName);
  while (text.starts_with('-')) text.remove_prefix(1);
  const bool plain = std::all_of(text.begin(), text.end(), [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '-' || c == '_' || c == '.';
  });
  if (text.empty() || !plain) return Expected("the name of an option, such as local_rank");
  return std::string(text);
}

}  // namespace muster::cli
