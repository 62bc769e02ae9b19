#include "base/proc/port_holder.h"

#include <dirent.h>
#include <unistd.h>

#include <array>
#include <climits>
#include <fstream>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/io/event_loop.h"
#include "base/text/text.h"
#include "base/text/utf8.h"

namespace muster {
namespace {

constexpr absl::string_view kListening = "0A";  // TCP_LISTEN, as the kernel writes it
constexpr size_t kStateField = 3;
constexpr size_t kInodeField = 9;
constexpr size_t kMaxNameBytes = 64;
constexpr char kDeleted[] = " (deleted)";

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

// Those that listen, and all others.
std::pair<Inodes, Inodes> SocketsOf(uint16_t port, BootTime deadline) {
  Inodes listening, others;
  for (const char* table : {"/proc/self/net/tcp", "/proc/self/net/tcp6"}) {
    CollectSockets(table, port, deadline, &listening, &others);
  }
  return {std::move(listening), std::move(others)};
}

std::string ReadLink(const std::string& path) {
  std::array<char, PATH_MAX> target{};
  const ssize_t size = readlink(path.c_str(), target.data(), target.size());
  return size < 0 ? "" : std::string(target.data(), static_cast<size_t>(size));
}

std::vector<std::string> NamesIn(const std::string& folder) {
  std::vector<std::string> names;
  const std::unique_ptr<DIR, int (*)(DIR*)> listing(opendir(folder.c_str()), &closedir);
  if (listing == nullptr) return names;
  while (const dirent* entry = readdir(listing.get())) {
    if (entry->d_name[0] != '.') names.emplace_back(entry->d_name);
  }
  return names;
}

bool HasOneOf(const std::string& process, BootTime deadline, const Inodes& inodes) {
  const std::string folder = absl::StrCat(process, "/fd/");
  for (const std::string& descriptor : NamesIn(folder)) {
    if (EventLoop::Now() >= deadline) return false;
    const std::string target = ReadLink(folder + descriptor);
    constexpr absl::string_view kSocket = "socket:[";
    if (!absl::StartsWith(target, kSocket) || target.back() != ']') continue;
    if (inodes.count(target.substr(kSocket.size(), target.size() - kSocket.size() - 1)) > 0) return true;
  }
  return false;
}

// The name of the program's file, even if the file has been replaced since.
std::string ProgramOf(const std::string& process) {
  std::string path = ReadLink(absl::StrCat(process, "/exe"));
  if (absl::EndsWith(path, kDeleted)) path.resize(path.size() - sizeof(kDeleted) + 1);
  return path.substr(path.rfind('/') + 1);
}

// The process's short name. Its arguments or environment are not read: that needs a lock of the process, which may
// be held for ever if the process hangs in a file system or a driver.
std::string NameOf(const std::string& process) {
  std::ifstream file(absl::StrCat(process, "/comm"));
  std::string name;
  std::getline(file, name);
  return OneLine(ToUtf8(name, kMaxNameBytes));
}

PortHolder Describe(pid_t pid, const std::string& process, bool listens) {
  PortHolder holder;
  holder.pid = pid;
  holder.listens = listens;
  holder.name = NameOf(process);
  const std::string program = ProgramOf(process);
  holder.is_muster =
      absl::StartsWith(holder.name, "muster") || (!program.empty() && program == ProgramOf("/proc/self"));
  return holder;
}

}  // namespace

std::optional<PortHolder> FindPortHolder(uint16_t port, absl::Duration limit) {
  const BootTime deadline = EventLoop::Now() + limit;
  const auto [listening, others] = SocketsOf(port, deadline);
  const bool listens = !listening.empty();
  const Inodes& inodes = listens ? listening : others;
  if (inodes.empty()) return std::nullopt;
  for (const std::string& name : NamesIn("/proc")) {
    pid_t pid = 0;
    if (!absl::SimpleAtoi(name, &pid) || pid == getpid()) continue;
    if (EventLoop::Now() >= deadline) return std::nullopt;
    const std::string process = absl::StrCat("/proc/", name);
    if (HasOneOf(process, deadline, inodes)) return Describe(pid, process, listens);
  }
  return std::nullopt;
}

bool IsListenedOn(uint16_t port) { return !SocketsOf(port, EventLoop::Now() + kHolderSearchLimit).first.empty(); }

}  // namespace muster
