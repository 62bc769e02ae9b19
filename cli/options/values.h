// Parsers for option values. Pure; errors are InvalidArgument with only the reason, to which the caller adds the
// option.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/text/duration.h"
#include "base/wire/takeover.h"
#include "muster/v1/host.pb.h"

namespace muster::cli {

inline constexpr int kMaxNodes = 100'000;
inline constexpr int kMaxSlots = 1'024;  // workers of one node
inline constexpr absl::Duration kMaxTime = absl::Hours(24 * kMaxDurationDays);

// The smallest and the largest value that is accepted. Parsers, their errors and the help texts have it from here.
template <typename T>
struct Bounds {
  T least;
  T most;

  bool Hold(T value) const { return value >= least && value <= most; }
};
inline constexpr Bounds<int> kNodeCounts = {1, kMaxNodes};
inline constexpr Bounds<int> kNodeRanks = {0, kMaxNodes - 1};
inline constexpr Bounds<int> kSlotCounts = {1, kMaxSlots};
inline constexpr Bounds<int> kLocalRanks = {0, kMaxSlots - 1};
inline constexpr Bounds<int> kGlobalRanks = {0, kMaxNodes* kMaxSlots - 1};
inline constexpr Bounds<int> kRestartCounts = {0, 1'000'000};
inline constexpr Bounds<int> kPorts = {1, 65'535};
inline constexpr Bounds<int> kPortsOrAny = {0, 65'535};  // 0: any free port
inline constexpr Bounds<int> kExitCodes = {0, 255};
inline constexpr Bounds<absl::Duration> kTimes = {absl::ZeroDuration(), kMaxTime};
inline constexpr Bounds<absl::Duration> kWindows = {absl::Seconds(1), kMaxTime};
inline constexpr Bounds<absl::Duration> kHangTimeouts = {absl::Seconds(5), kMaxTime};  // signs come once a second
// Within less not even a node on the same machine connects.
inline constexpr Bounds<absl::Duration> kJoinTimeouts = {absl::Milliseconds(100), kMaxTime};
inline constexpr Bounds<absl::Duration> kCommandTimeouts = {absl::Milliseconds(100),
                                                            kMaxTime};  // of hooks and checks
inline constexpr Bounds<absl::Duration> kBeats = {absl::Milliseconds(10), kMaxTime};
inline constexpr Bounds<absl::Duration> kLeases = {kMinLease, kMaxLease};
// A smaller number is rather a duration than a time; a larger one has a year of five digits.
inline constexpr Bounds<int64_t> kDeadlines = {1'000'000'000, 253'402'300'799};  // seconds since 1970

std::string ShowBounds(Bounds<int> bounds);             // "1 to 65535"
std::string ShowBounds(Bounds<absl::Duration> bounds);  // "1s to 24h"
std::string ShowDays(Bounds<int64_t> bounds);           // of seconds since 1970: "2001-09-09 to 9999-12-31"

inline constexpr uint16_t kDefaultMasterPort = 29500;  // both ports are torchrun's defaults
inline constexpr uint16_t kDefaultRendezvousPort = 29400;

struct NodeRange {
  int min = 1;
  int max = 1;
};

// Maximum number of node losses within a window.
struct LossBudget {
  int number = 10;
  absl::Duration window = absl::Hours(1);
};

// Value of --hang-timeout.
struct HangTimeout {
  bool is_learned = false;                     // auto
  absl::Duration time = absl::ZeroDuration();  // zero: off
};

struct SlotCount {
  enum Kind { kNumber, kAuto, kGpu, kCpu, kXpu, kNpu, kHpu };
  Kind kind = kNumber;
  int number = 1;  // for kNumber
};

struct HostPort {
  std::string host;  // no brackets
  std::optional<uint16_t> port;
};

struct PortRange {
  uint16_t low = 0;  // 0: any port
  uint16_t high = 0;
};

struct StdinChoice {
  enum Kind { kAll, kNone, kRank };
  Kind kind = kAll;
  int rank = 0;  // global; for kRank
};

// Value of --group-lines.
enum class GroupLines { kAuto, kOn, kOff };

// Value of --debug.
struct DebugChoice {
  int rank = 0;                  // global
  std::optional<uint16_t> port;  // of debugpy; nullopt: pdb on the terminal
};

// Value of --preload.
struct ModuleNames {
  std::vector<std::string> names;  // of Python modules, in order
  bool are_learned = false;        // auto

  bool IsNothing() const { return names.empty() && !are_learned; }
};

// Value of --preemption-notice.
struct NoticeChoice {
  v1::NoticeSource::Kind kind = v1::NoticeSource::OFF;
  bool by_firmware = false;  // auto: GCE or AWS if the firmware identifies the machine
  std::string file;          // for FILE
};

absl::StatusOr<int> ParseInteger(std::string_view text, Bounds<int> bounds);
// "90", "500ms", "5m": ParseDuration with bounds.
absl::StatusOr<absl::Duration> ParseTime(std::string_view text, Bounds<absl::Duration> bounds);
absl::StatusOr<bool> ParseBoolean(std::string_view text);
absl::StatusOr<NodeRange> ParseNodeRange(std::string_view text);
absl::StatusOr<LossBudget> ParseLossBudget(std::string_view text);  // "10", "3/10m"
absl::StatusOr<v1::NodeConfig::ScaleUp> ParseScaleUp(std::string_view text);
absl::StatusOr<GroupLines> ParseGroupLines(std::string_view text);
absl::StatusOr<HangTimeout> ParseHangTimeout(std::string_view text);  // "off", "auto", "5m"
absl::StatusOr<v1::NodeConfig::OnHang> ParseOnHang(std::string_view text);
absl::StatusOr<NoticeChoice> ParseNotice(std::string_view text);  // "off", "gce", "aws", "auto", "file:/a/b"
absl::StatusOr<absl::Time> ParseDeadline(std::string_view text);  // "2026-11-21T16:00:00Z", seconds since 1970
absl::StatusOr<SlotCount> ParseSlotCount(std::string_view text);
absl::StatusOr<uint16_t> ParsePort(std::string_view text);
absl::StatusOr<uint16_t> ParsePortOrAny(std::string_view text);
absl::StatusOr<HostPort> ParseHostPort(std::string_view text);     // "[::1]:29400", "::1", "name", "name:0"
absl::StatusOr<HostPort> ParseCoordinator(std::string_view text);  // the same; port 0 is refused
// "29400", ":29400", "127.0.0.1", "[::1]:29400", "name:29400"; a name alone is refused, since it may be a typing
// error: only its port, and whether it is a loopback address, have an effect.
absl::StatusOr<HostPort> ParseListen(std::string_view text);
// "9400", on 127.0.0.1; "0.0.0.0:9400", "[::1]:9400", "localhost:9400". The host is an IP address, the port is
// there.
absl::StatusOr<HostPort> ParseHttpAddress(std::string_view text);
absl::StatusOr<std::string> ParseHost(std::string_view text);  // the same without a port; also "fe80::1%eth0"
absl::StatusOr<std::string> ParsePrimaryHost(std::string_view text);  // without a zone, which other nodes lack
absl::StatusOr<PortRange> ParsePortRange(std::string_view text);
absl::StatusOr<StdinChoice> ParseStdinChoice(std::string_view text);
absl::StatusOr<DebugChoice> ParseDebugChoice(std::string_view text);  // "3", "3:5678"
absl::StatusOr<ModuleNames> ParseModuleNames(std::string_view text);  // "torch,torch.distributed", "auto", "off"
// torchrun's "key=value,key=value".
absl::StatusOr<std::vector<std::pair<std::string, std::string>>> ParseRendezvousConf(std::string_view text);

absl::StatusOr<std::string> ParseShell(std::string_view text);  // for --print-completion: "bash", "zsh", "fish"

// A value as `muster env` shows it.
std::string ShowValue(const std::string& value);
std::string ShowValue(int value);
std::string ShowValue(absl::Duration value);
std::string ShowValue(const LossBudget& value);
std::string ShowValue(v1::NodeConfig::ScaleUp value);
std::string ShowValue(const HangTimeout& value);
std::string ShowValue(v1::NodeConfig::OnHang value);

}  // namespace muster::cli
