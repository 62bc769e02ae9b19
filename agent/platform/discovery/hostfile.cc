#include "agent/platform/discovery/hostfile.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "agent/platform/discovery/address.h"
#include "base/core/status_macros.h"
#include "base/text/problem.h"

namespace muster::discovery {
namespace {

constexpr char kLineGrammar[] = "HOST slots=N";
constexpr char kFilterGrammar[] = "HOST[:SLOT,SLOT][@HOST...]";
constexpr std::string_view kSlots = "slots=";
constexpr std::string_view kMaxSlotsForms[] = {"max_slots=", "max-slots="};

bool IsBlank(char c) { return c == ' ' || c == '\t' || c == '\r'; }

std::string_view Trim(std::string_view text) {
  while (!text.empty() && IsBlank(text.front())) text.remove_prefix(1);
  while (!text.empty() && IsBlank(text.back())) text.remove_suffix(1);
  return text;
}

// The words after a host without Open MPI's limit, which is the first or the last one.
std::string_view WithoutMaxSlots(std::string_view words) {
  for (const std::string_view form : kMaxSlotsForms) {
    const size_t last = words.find_last_of(" \t");
    if (last != std::string_view::npos && words.substr(last + 1).starts_with(form))
      return Trim(words.substr(0, last));
    const size_t first = words.find_first_of(" \t");
    if (first != std::string_view::npos && words.starts_with(form)) return Trim(words.substr(first));
  }
  return words;
}

std::optional<int> Number(std::string_view text, int high) {
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool whole = error == std::errc() && end == text.data() + text.size() && !text.empty();
  return whole && number >= 0 && number <= high ? std::optional<int>(number) : std::nullopt;
}

class HostfileReader {
 public:
  HostfileReader(std::string source, std::vector<std::string>* warnings)
      : source_(std::move(source)), warnings_(warnings) {}

  absl::StatusOr<std::vector<HostSlots>> Run(std::string_view text) {
    if (text.size() > kMaxHostfileBytes) {
      return Wrong("", std::nullopt, absl::StrCat("at most ", kMaxHostfileBytes, " bytes"));
    }
    for (const absl::string_view line : absl::StrSplit(AsAbsl(text), '\n')) {
      ++line_;
      const size_t comment = line.find('#');
      const std::string_view content = Trim(AsStd(line.substr(0, comment)));
      if (!content.empty()) RETURN_IF_ERROR(Line(content));
    }
    if (hosts_.empty()) return Wrong("", std::nullopt, absl::StrCat("lines of ", kLineGrammar));
    return std::move(hosts_);
  }

 private:
  absl::Status Line(std::string_view content) {
    const size_t end = std::min(content.find_first_of(" \t"), content.size());
    const std::string host = WithoutUser(content.substr(0, end));
    const std::string_view rest = WithoutMaxSlots(Trim(content.substr(end)));
    if (!rest.starts_with(kSlots)) return Wrong("", std::string(content), kLineGrammar);
    // An IPv6 address needs no brackets here, since hosts have no port.
    const bool bare_ipv6 = std::count(host.begin(), host.end(), ':') > 1 && host.front() != '[';
    const absl::StatusOr<Address> address = ParseAddress(bare_ipv6 ? absl::StrCat("[", host, "]") : host);
    if (!address.ok() || address->port)
      return Wrong(" host", host, "a host name or an IP address, without a port");
    const std::optional<int> slots = Number(rest.substr(kSlots.size()), kMaxHostSlots);
    if (!slots) {
      return Wrong(" slots", std::string(rest.substr(kSlots.size())),
                   absl::StrCat("a whole number from 1 to ", kMaxHostSlots, " and nothing after it"));
    }
    if (*slots == 0) {
      return Wrong(" slots", "0",
                   "at least 1: the script that counted the devices of " + Shown(host) + " probably failed");
    }
    if (!seen_.insert(HostKey(address->host)).second) return Wrong(" host", host, "each host once");
    if (hosts_.size() == static_cast<size_t>(kMaxHosts))
      return Wrong("", host, absl::StrCat("at most ", kMaxHosts, " hosts"));
    slots_ += static_cast<size_t>(*slots);
    if (slots_ > kMaxSlots)
      return Wrong(" slots", absl::StrCat(*slots), absl::StrCat("at most ", kMaxSlots, " in all"));
    HostSlots entry{address->host, {}};
    for (int slot = 0; slot < *slots; ++slot) entry.slots.push_back(slot);
    hosts_.push_back(std::move(entry));
    return absl::OkStatus();
  }

  std::string WithoutUser(std::string_view word) {
    const size_t at = word.find('@');
    if (at == std::string_view::npos || at == 0) return std::string(word);
    if (!named_a_user_ && warnings_ != nullptr) {
      warnings_->push_back(absl::StrCat(Shown(source_), ": line ", line_, ": the user of ", Shown(word),
                                        " is ignored, since muster starts nothing by SSH"));
    }
    named_a_user_ = true;
    return std::string(word.substr(at + 1));
  }

  absl::Status Wrong(const std::string& field, std::optional<std::string> value, std::string expected) const {
    const bool whole_file = hosts_.empty() && !value;
    return ToStatus({.source = source_,
                     .field = whole_file ? "" : absl::StrCat("line ", line_, field),
                     .value = whole_file ? std::optional<std::string>("") : std::move(value),
                     .expected = std::move(expected),
                     .advice = "correct the hostfile"});
  }

  const std::string source_;
  std::vector<std::string>* const warnings_;
  bool named_a_user_ = false;
  int line_ = 0;
  size_t slots_ = 0;  // of all hosts so far
  std::vector<HostSlots> hosts_;
  std::set<std::string> seen_;
};

// The selected slots by host; nullopt: all slots of the host.
using Filter = std::map<std::string, std::optional<std::set<int>>>;

absl::Status FilterProblem(const std::string& option, std::string_view value, std::string expected) {
  return ToStatus({.source = option,
                   .field = "",
                   .value = std::string(value),
                   .expected = std::move(expected),
                   .advice = "see the hostfile"});
}

// "HOST:SLOTS", split. slots is nullopt if the item names only a host. nullopt: invalid.
struct Item {
  std::string host;
  std::optional<std::string_view> slots;
};

std::optional<Item> SplitItem(std::string_view text) {
  text = Trim(text);
  const size_t close = text.starts_with('[') ? text.find(']') : 0;  // end of an IPv6 address
  if (close == std::string_view::npos) return std::nullopt;
  const size_t colon = text.find(':', close);
  const std::string_view host = Trim(text.substr(0, colon));
  Item item{std::string(close > 0 && host.size() == close + 1 ? host.substr(1, close - 1) : host), {}};
  if (colon != std::string_view::npos) item.slots = text.substr(colon + 1);
  if (item.host.empty() || (item.slots && item.slots->find(':') != std::string_view::npos)) return std::nullopt;
  return item;
}

absl::StatusOr<Filter> ParseFilter(const std::string& option, std::string_view text,
                                   const std::vector<HostSlots>& hosts) {
  std::map<std::string_view, const HostSlots*> known;
  for (const HostSlots& host : hosts) known.emplace(host.host, &host);
  Filter filter;
  for (const absl::string_view entry : absl::StrSplit(AsAbsl(text), '@')) {
    const std::optional<Item> item = SplitItem(AsStd(entry));
    if (!item) return FilterProblem(option, text, kFilterGrammar);
    const auto host = known.find(item->host);
    if (host == known.end()) return FilterProblem(option, item->host, "a host of the hostfile");
    const auto [named, is_new] = filter.try_emplace(item->host, std::set<int>());
    std::optional<std::set<int>>& wanted = named->second;
    if (!item->slots) wanted.reset();
    if (!item->slots) continue;
    const std::vector<int>& there = host->second->slots;
    for (const absl::string_view slot : absl::StrSplit(AsAbsl(*item->slots), ',')) {
      const std::optional<int> number = Number(Trim(AsStd(slot)), kMaxHostSlots);
      if (!number || !std::binary_search(there.begin(), there.end(), *number)) {
        return FilterProblem(option, AsStd(entry),
                             absl::StrCat("slots from 0 to ", there.back(), " of ", item->host));
      }
      if (wanted) wanted->insert(*number);
    }
  }
  return filter;
}

}  // namespace

absl::StatusOr<std::vector<HostSlots>> ParseHostfile(const std::string& source, std::string_view text,
                                                     std::vector<std::string>* warnings) {
  return HostfileReader(source, warnings).Run(text);
}

absl::StatusOr<std::vector<HostSlots>> FilterHosts(std::vector<HostSlots> hosts, std::string_view include,
                                                   std::string_view exclude) {
  if (include.empty() && exclude.empty()) return hosts;
  if (!include.empty() && !exclude.empty()) {
    return FilterProblem("--exclude", exclude, "not both --include and --exclude");
  }
  const bool keeps = !include.empty();
  ASSIGN_OR_RETURN(const Filter filter,
                   ParseFilter(keeps ? "--include" : "--exclude", keeps ? include : exclude, hosts));
  std::vector<HostSlots> result;
  for (HostSlots& host : hosts) {
    const auto found = filter.find(host.host);
    const bool named = found != filter.end();
    const auto stays = [&](int slot) {
      const bool matched = named && (!found->second || found->second->count(slot) > 0);
      return matched == keeps;
    };
    std::vector<int> slots;
    std::copy_if(host.slots.begin(), host.slots.end(), std::back_inserter(slots), stays);
    host.slots = std::move(slots);
    if (!host.slots.empty()) result.push_back(std::move(host));
  }
  if (result.empty()) {
    return FilterProblem(keeps ? "--include" : "--exclude", keeps ? include : exclude, "some host to be left");
  }
  return result;
}

}  // namespace muster::discovery
