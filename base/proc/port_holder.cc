#include "base/proc/port_holder.h"

#include <unistd.h>

#include <fstream>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "base/io/bound_port.h"
#include "base/io/event_loop.h"
#include "base/proc/proc_scan.h"
#include "base/text/text.h"
#include "base/text/utf8.h"

namespace muster {
namespace {

constexpr absl::string_view kListening = "0A";  // TCP_LISTEN, as the kernel writes it
constexpr size_t kStateField = 3;
constexpr size_t kInodeField = 9;
constexpr size_t kMaxNameBytes = 64;

using Inodes = std::set<std::string>;

// A row of the table: "0: 0100007F:B267 00000000:0000 0A 00000000:00000000 00:00000000 00000000 0 0 12345 ...".
void CollectSockets(const char* table, uint16_t port, BootTime deadline, Inodes* listening, Inodes* others) {
  std::ifstream file(table);
  std::string line;
  std::getline(file, line);  // the heading
  while (EventLoop::Now() < deadline && std::getline(file, line)) {
    const std::vector<absl::string_view> fields = absl::StrSplit(line, ' ', absl::SkipEmpty());
    if (fields.size() <= kInodeField) continue;
    const std::vector<absl::string_view> local = absl::StrSplit(fields[1], ':');
    int local_port = 0;
    if (local.size() != 2 || !absl::SimpleHexAtoi(local[1], &local_port) || local_port != port) continue;
    if (fields[kInodeField] == "0") continue;  // TIME_WAIT: belongs to no process any more
    (fields[kStateField] == kListening ? listening : others)->emplace(fields[kInodeField]);
  }
}

// False: nobody listens on the port, at any address. A listener keeps it from being bound even so; the kernel
// answers in microseconds, however many connections this machine has. True: the tables tell.
bool MayBeListenedOn(uint16_t port) { return !BindPort(port, true).valid(); }

// Those that listen, and all others.
std::pair<Inodes, Inodes> SocketsOf(uint16_t port, BootTime deadline) {
  Inodes listening, others;
  for (const char* table : {"/proc/self/net/tcp", "/proc/self/net/tcp6"}) {
    CollectSockets(table, port, deadline, &listening, &others);
  }
  return {std::move(listening), std::move(others)};
}

bool HasOneOf(pid_t pid, BootTime deadline, const Inodes& inodes) {
  return HasDescriptor(pid, [&](const std::string& target) {
    constexpr absl::string_view kSocket = "socket:[";
    if (EventLoop::Now() >= deadline || !absl::StartsWith(target, kSocket) || target.back() != ']') return false;
    return inodes.count(target.substr(kSocket.size(), target.size() - kSocket.size() - 1)) > 0;
  });
}

// Its arguments or environment are not read: that needs a lock of the process, which may be held for ever if the
// process hangs in a file system or a driver.
PortHolder HolderOf(pid_t pid, bool listens) {
  const std::string name = ReadProcess(pid).value_or(ProcessInfo()).name;
  PortHolder holder;
  holder.pid = pid;
  holder.listens = listens;
  holder.name = OneLine(ToUtf8(name, kMaxNameBytes));
  const std::string program = ProgramOf(pid);
  holder.is_muster =
      absl::StartsWith(holder.name, "muster") || (!program.empty() && program == ProgramOf(getpid()));
  return holder;
}

}  // namespace

std::optional<PortHolder> FindPortHolder(uint16_t port, absl::Duration limit) {
  const BootTime deadline = EventLoop::Now() + limit;
  const auto [listening, others] = SocketsOf(port, deadline);
  const bool listens = !listening.empty();
  const Inodes& inodes = listens ? listening : others;
  if (inodes.empty()) return std::nullopt;
  std::optional<PortHolder> holder;
  (void)ForEachProcess([&](pid_t pid) {
    if (holder || pid == getpid() || EventLoop::Now() >= deadline) return;
    if (HasOneOf(pid, deadline, inodes)) holder = HolderOf(pid, listens);
  });
  return holder;
}

bool IsListenedOn(uint16_t port) {
  return MayBeListenedOn(port) && !SocketsOf(port, EventLoop::Now() + kHolderSearchLimit).first.empty();
}

}  // namespace muster
