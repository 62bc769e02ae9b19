#include "cli/options/values.h"

#include <arpa/inet.h>

#include <algorithm>
#include <charconv>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/core/status_macros.h"
#include "base/text/duration.h"
#include "base/text/text.h"
#include "base/wire/loopback.h"

namespace muster::cli {
namespace {

constexpr size_t kMaxHostName = 253;  // characters; the limit of DNS

absl::Status Expected(std::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("expected ", AsAbsl(what)));
}

// An address of one link may have a zone (RFC 4007), as in fe80::1%eth0.
bool IsIpv6(const std::string& text) {
  const size_t zone = text.find('%');
  if (zone != std::string::npos && zone + 1 == text.size()) return false;
  in6_addr address;
  return inet_pton(AF_INET6, text.substr(0, zone).c_str(), &address) == 1;
}

bool HasZone(const std::string& host) { return IsIpv6(host) && host.find('%') != std::string::npos; }

absl::StatusOr<HostPort> SplitHostPort(std::string_view text, Bounds<int> ports = kPortsOrAny) {
  absl::Status expected = Expected("HOST or HOST:PORT, an IPv6 address in brackets");
  HostPort result;
  std::string_view port;
  bool has_port = false;
  if (!text.empty() && text[0] == '[') {
    const size_t end = text.find(']');
    if (end == std::string_view::npos) return expected;
    result.host = text.substr(1, end - 1);
    if (!IsIpv6(result.host)) return expected;
    const std::string_view rest = text.substr(end + 1);
    has_port = !rest.empty();
    if (has_port && rest[0] != ':') return expected;
    if (has_port) port = rest.substr(1);
  } else if (IsIpv6(std::string(text))) {
    result.host = text;
  } else {
    const size_t colon = text.find(':');
    has_port = colon != std::string_view::npos;
    result.host = text.substr(0, colon);
    if (has_port) port = text.substr(colon + 1);
  }
  if (result.host.empty() || result.host.size() > kMaxHostName || !IsHostText(result.host)) return expected;
  if (has_port) {
    const auto number = ParseInteger(port, ports);
    if (!number.ok()) return Expected(absl::StrCat("a port from ", ShowBounds(ports), " after the colon"));
    result.port = static_cast<uint16_t>(*number);
  }
  return result;
}

absl::StatusOr<HostPort> ForAllNodes(absl::StatusOr<HostPort> address) {
  if (!address.ok() || !HasZone(address->host)) return address;
  return Expected("an address that all nodes can use, without a zone (%)");
}

}  // namespace

std::string ShowBounds(Bounds<int> bounds) { return absl::StrCat(bounds.least, " to ", bounds.most); }

std::string ShowBounds(Bounds<absl::Duration> bounds) {
  return absl::StrCat(muster::FormatDuration(bounds.least), " to ", muster::FormatDuration(bounds.most));
}

std::string ShowDays(Bounds<int64_t> bounds) {
  const auto day = [](int64_t seconds) {
    return absl::FormatTime("%Y-%m-%d", absl::FromUnixSeconds(seconds), absl::UTCTimeZone());
  };
  return absl::StrCat(day(bounds.least), " to ", day(bounds.most));
}

absl::StatusOr<int> ParseInteger(std::string_view text, Bounds<int> bounds) {
  int number = 0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || rest != end || text.empty() || !bounds.Hold(number)) {
    return Expected("a whole number from " + ShowBounds(bounds));
  }
  return number;
}

absl::StatusOr<absl::Duration> ParseTime(std::string_view text, Bounds<absl::Duration> bounds) {
  const absl::StatusOr<absl::Duration> time = ParseDuration(text);
  if (time.ok() && bounds.Hold(*time)) return *time;
  return Expected(absl::StrCat("a time from ", ShowBounds(bounds), ", in seconds or as 500ms, 20s, 5m, 1h"));
}

absl::StatusOr<bool> ParseBoolean(std::string_view text) {
  if (text == "1" || text == "true" || text == "yes" || text == "on") return true;
  if (text == "0" || text == "false" || text == "no" || text == "off") return false;
  int number = 0;  // torchrun's PET_ variables: any number but 0 is true
  if (absl::SimpleAtoi(AsAbsl(text), &number)) return number != 0;
  return Expected("1 or 0");
}

absl::StatusOr<NodeRange> ParseNodeRange(std::string_view text) {
  const size_t colon = text.find(':');
  const auto count = [&](size_t from, size_t length = std::string_view::npos) {
    return ParseInteger(AsStd(absl::StripAsciiWhitespace(AsAbsl(text.substr(from, length)))), kNodeCounts);
  };
  const auto low = count(0, colon);
  const auto high = colon == std::string_view::npos ? low : count(colon + 1);
  if (!low.ok() || !high.ok()) return Expected("N or MIN:MAX, each from " + ShowBounds(kNodeCounts));
  if (*low > *high) return absl::InvalidArgumentError("expected MIN:MAX with MIN at most MAX");
  return NodeRange{*low, *high};
}

absl::StatusOr<LossBudget> ParseLossBudget(std::string_view text) {
  LossBudget budget;
  const size_t slash = text.find('/');
  const auto number = ParseInteger(text.substr(0, slash), kRestartCounts);
  absl::StatusOr<absl::Duration> window = budget.window;
  if (slash != std::string_view::npos) window = ParseTime(text.substr(slash + 1), kWindows);
  if (!number.ok() || !window.ok()) {
    return Expected(absl::StrCat("N or N/TIME, N from ", ShowBounds(kRestartCounts), ", TIME from ",
                                 ShowBounds(kWindows), ", as in 10 or 3/30m"));
  }
  return LossBudget{*number, *window};
}

absl::StatusOr<v1::NodeConfig::ScaleUp> ParseScaleUp(std::string_view text) {
  if (text == "immediate") return v1::NodeConfig::SCALE_UP_IMMEDIATE;
  if (text == "on-restart") return v1::NodeConfig::SCALE_UP_ON_RESTART;
  if (text == "never") return v1::NodeConfig::SCALE_UP_NEVER;
  return Expected("immediate, on-restart or never");
}

absl::StatusOr<HangTimeout> ParseHangTimeout(std::string_view text) {
  if (text == "off") return HangTimeout{};
  if (text == "auto") return HangTimeout{.is_learned = true};
  const auto time = ParseTime(text, kHangTimeouts);
  if (!time.ok())
    return Expected(absl::StrCat("auto, off or a time from ", ShowBounds(kHangTimeouts), ", as in 5m"));
  return HangTimeout{.time = *time};
}

absl::StatusOr<v1::NodeConfig::OnHang> ParseOnHang(std::string_view text) {
  if (text == "restart") return v1::NodeConfig::ON_HANG_RESTART;
  if (text == "stop") return v1::NodeConfig::ON_HANG_STOP;
  if (text == "report") return v1::NodeConfig::ON_HANG_REPORT;
  return Expected("restart, stop or report");
}

absl::StatusOr<NoticeChoice> ParseNotice(std::string_view text) {
  constexpr std::string_view kFile = "file:";
  if (text == "off") return NoticeChoice{};
  if (text == "gce") return NoticeChoice{v1::NoticeSource::GCE, false, ""};
  if (text == "aws") return NoticeChoice{v1::NoticeSource::AWS, false, ""};
  if (text == "auto") return NoticeChoice{v1::NoticeSource::OFF, true, ""};
  if (text.starts_with(kFile) && text.size() > kFile.size()) {
    return NoticeChoice{v1::NoticeSource::FILE, false, std::string(text.substr(kFile.size()))};
  }
  return Expected("off, gce, aws, auto or file:PATH");
}

absl::StatusOr<absl::Time> ParseDeadline(std::string_view text) {
  // absl also parses words such as infinite-future.
  const bool begins_with_digit = !text.empty() && text[0] >= '0' && text[0] <= '9';
  absl::Time time;
  int64_t seconds = 0;
  if (begins_with_digit && absl::SimpleAtoi(AsAbsl(text), &seconds)) {
    time = absl::FromUnixSeconds(seconds);
  } else if (!begins_with_digit || !absl::ParseTime(absl::RFC3339_full, AsAbsl(text), &time, nullptr)) {
    time = absl::InfinitePast();
  }
  if (time >= absl::FromUnixSeconds(kDeadlines.least) && time <= absl::FromUnixSeconds(kDeadlines.most))
    return time;
  return Expected(
      absl::StrCat("a time from ", ShowDays(kDeadlines), ", as 2026-11-21T16:00:00Z or in seconds since 1970"));
}

absl::StatusOr<SlotCount> ParseSlotCount(std::string_view text) {
  if (text == "auto") return SlotCount{SlotCount::kAuto, 0};
  if (text == "gpu") return SlotCount{SlotCount::kGpu, 0};
  if (text == "cpu") return SlotCount{SlotCount::kCpu, 0};
  if (text == "xpu") return SlotCount{SlotCount::kXpu, 0};
  if (text == "npu") return SlotCount{SlotCount::kNpu, 0};
  if (text == "hpu") return SlotCount{SlotCount::kHpu, 0};
  const auto number = ParseInteger(text, kSlotCounts);
  if (!number.ok()) {
    return Expected(
        absl::StrCat("a whole number from ", ShowBounds(kSlotCounts), ", auto, gpu, cpu, xpu, npu or hpu"));
  }
  return SlotCount{SlotCount::kNumber, *number};
}

absl::StatusOr<uint16_t> ParsePort(std::string_view text) {
  const auto port = ParseInteger(text, kPorts);
  if (!port.ok()) return Expected("a port from " + ShowBounds(kPorts));
  return static_cast<uint16_t>(*port);
}

absl::StatusOr<uint16_t> ParsePortOrAny(std::string_view text) {
  const auto port = ParseInteger(text, kPortsOrAny);
  if (!port.ok()) return Expected("a port from " + ShowBounds(kPortsOrAny));
  return static_cast<uint16_t>(*port);
}

absl::StatusOr<HostPort> ParseHostPort(std::string_view text) { return ForAllNodes(SplitHostPort(text)); }

absl::StatusOr<HostPort> ParseCoordinator(std::string_view text) {
  ASSIGN_OR_RETURN(HostPort address, ForAllNodes(SplitHostPort(text, kPorts)));
  if (!address.port) address.port = kDefaultRendezvousPort;
  return address;
}

absl::StatusOr<HostPort> ParseListen(std::string_view text) {
  constexpr char kEverywhere[] = "0.0.0.0";
  const std::string_view port_only = text.starts_with(':') ? text.substr(1) : text;
  if (const auto port = ParseInteger(port_only, kPortsOrAny); port.ok()) {
    return HostPort{kEverywhere, static_cast<uint16_t>(*port)};
  }
  ASSIGN_OR_RETURN(HostPort address, ParseHostPort(text));
  if (!address.port) {
    in_addr literal;
    const bool is_address = IsIpv6(address.host) || inet_pton(AF_INET, address.host.c_str(), &literal) == 1;
    if (!is_address && !IsLoopback(address.host)) {
      return Expected(absl::StrCat("a port from ", ShowBounds(kPortsOrAny),
                                   " (0: any), an IP address, or HOST:PORT, such as 29400 or node0:29400"));
    }
    address.port = kDefaultRendezvousPort;
  }
  return address;
}

absl::StatusOr<HostPort> ParseHttpAddress(std::string_view text) {
  constexpr char kHere[] = "127.0.0.1";
  if (const auto port = ParseInteger(text, kPortsOrAny); port.ok())
    return HostPort{kHere, static_cast<uint16_t>(*port)};
  absl::StatusOr<HostPort> address = SplitHostPort(text);
  if (address.ok() && address->host == "localhost") address->host = kHere;
  in_addr literal;
  if (!address.ok() || !address->port || HasZone(address->host) ||
      (!IsIpv6(address->host) && inet_pton(AF_INET, address->host.c_str(), &literal) != 1))
    return Expected("PORT, for visitors of this machine, or IP-ADDRESS:PORT, such as 9400 or 0.0.0.0:9400");
  return address;
}

absl::StatusOr<std::string> ParseHost(std::string_view text) {
  const auto parsed = SplitHostPort(text);
  if (!parsed.ok() || parsed->port) return Expected("a host name or an IP address, without a port");
  return parsed->host;
}

absl::StatusOr<std::string> ParsePrimaryHost(std::string_view text) {
  ASSIGN_OR_RETURN(const std::string host, ParseHost(text));
  RETURN_IF_ERROR(ParseHostPort(host).status());
  return host;
}

absl::StatusOr<PortRange> ParsePortRange(std::string_view text) {
  const size_t colon = text.find(':');
  const auto low = ParsePort(text.substr(0, colon));
  const auto high = colon == std::string_view::npos ? low : ParsePort(text.substr(colon + 1));
  if (!low.ok() || !high.ok()) return Expected("LO:HI, each a port from " + ShowBounds(kPorts));
  if (*low > *high) return absl::InvalidArgumentError("expected LO:HI with LO at most HI");
  return PortRange{*low, *high};
}

absl::StatusOr<GroupLines> ParseGroupLines(std::string_view text) {
  if (text == "auto") return GroupLines::kAuto;
  if (text == "on") return GroupLines::kOn;
  if (text == "off") return GroupLines::kOff;
  return Expected("auto, on or off");
}

absl::StatusOr<StdinChoice> ParseStdinChoice(std::string_view text) {
  if (text == "all") return StdinChoice{StdinChoice::kAll, 0};
  if (text == "none") return StdinChoice{StdinChoice::kNone, 0};
  const auto rank = ParseInteger(text, kGlobalRanks);
  if (!rank.ok()) return Expected("all, none or a rank from " + ShowBounds(kGlobalRanks));
  return StdinChoice{StdinChoice::kRank, *rank};
}

absl::StatusOr<DebugChoice> ParseDebugChoice(std::string_view text) {
  const size_t colon = text.find(':');
  const auto rank = ParseInteger(text.substr(0, colon), kGlobalRanks);
  const bool has_port = colon != std::string_view::npos;
  const auto port = has_port ? ParseInteger(text.substr(colon + 1), kPorts) : absl::StatusOr<int>(0);
  if (!rank.ok() || !port.ok()) {
    return Expected(absl::StrCat("RANK for pdb, or RANK:PORT for debugpy, RANK from ", ShowBounds(kGlobalRanks),
                                 ", PORT from ", ShowBounds(kPorts)));
  }
  DebugChoice choice{*rank, std::nullopt};
  if (has_port) choice.port = static_cast<uint16_t>(*port);
  return choice;
}

namespace {

// In ASCII, as the names of all packages that are published.
bool IsModuleName(absl::string_view name) {
  for (const absl::string_view part : absl::StrSplit(name, '.')) {
    if (part.empty() || absl::ascii_isdigit(static_cast<unsigned char>(part[0]))) return false;
    for (const char c : part) {
      if (!absl::ascii_isalnum(static_cast<unsigned char>(c)) && c != '_') return false;
    }
  }
  return true;
}

// Words that a user may take for values of --preload; no module of use has such a name.
bool IsSwitch(absl::string_view name) {
  constexpr const char* kSwitches[] = {"auto", "off", "on", "yes", "no", "true", "false", "none"};
  return std::any_of(std::begin(kSwitches), std::end(kSwitches),
                     [name](const char* each) { return absl::EqualsIgnoreCase(name, each); });
}

}  // namespace

absl::StatusOr<ModuleNames> ParseModuleNames(std::string_view text) {
  ModuleNames modules;
  modules.are_learned = text == "auto";
  if (text == "off" || modules.are_learned) return modules;
  for (const absl::string_view each : absl::StrSplit(AsAbsl(text), ',')) {
    const absl::string_view name = absl::StripAsciiWhitespace(each);
    if (!IsModuleName(name) || IsSwitch(name)) {
      return Expected("names of Python modules with commas between them, or auto alone, or off alone");
    }
    modules.names.emplace_back(name);
  }
  return modules;
}

absl::StatusOr<std::vector<std::pair<std::string, std::string>>> ParseRendezvousConf(std::string_view text) {
  std::vector<std::pair<std::string, std::string>> result;
  for (const absl::string_view item : absl::StrSplit(AsAbsl(text), ',', absl::SkipWhitespace())) {
    const std::pair<absl::string_view, absl::string_view> pair = absl::StrSplit(item, absl::MaxSplits('=', 1));
    if (pair.first.empty() || pair.second.empty()) return Expected("KEY=VALUE,KEY=VALUE");
    result.emplace_back(std::string(pair.first), std::string(pair.second));
  }
  return result;
}

absl::StatusOr<std::string> ParseShell(std::string_view text) {
  if (text == "bash" || text == "zsh" || text == "fish") return std::string(text);
  return absl::InvalidArgumentError("expected bash, zsh or fish");
}

std::string ShowValue(const std::string& value) { return value; }
std::string ShowValue(int value) { return absl::StrCat(value); }
std::string ShowValue(absl::Duration value) { return muster::FormatDuration(value); }
std::string ShowValue(const LossBudget& value) {
  return absl::StrCat(value.number, " in ", muster::FormatDuration(value.window));
}
std::string ShowValue(v1::NodeConfig::ScaleUp value) {
  switch (value) {
    case v1::NodeConfig::SCALE_UP_ON_RESTART:
      return "on-restart";
    case v1::NodeConfig::SCALE_UP_NEVER:
      return "never";
    default:
      return "immediate";
  }
}

std::string ShowValue(const HangTimeout& value) {
  if (value.is_learned) return "auto";
  return value.time == absl::ZeroDuration() ? "off" : muster::FormatDuration(value.time);
}
std::string ShowValue(v1::NodeConfig::OnHang value) {
  switch (value) {
    case v1::NodeConfig::ON_HANG_STOP:
      return "stop";
    case v1::NodeConfig::ON_HANG_REPORT:
      return "report";
    default:
      return "restart";
  }
}

}  // namespace muster::cli
