#include "agent/host/process/taken_port.h"

#include <unistd.h>

#include <optional>

#include "absl/strings/str_cat.h"
#include "base/proc/port_holder.h"
#include "base/proc/proc_scan.h"

namespace muster::host {
namespace {

// This process adopts what its descendants leave.
bool IsOurs(pid_t pid) {
  while (pid != getpid()) {
    const std::optional<ProcessInfo> process = ReadProcess(pid);
    if (!process || process->parent == 0) return false;
    pid = process->parent;
  }
  return true;
}

}  // namespace

std::string WhoTook(uint16_t port) {
  if (!IsListenedOn(port)) return "";
  const std::optional<PortHolder> holder = FindPortHolder(port);
  if (!holder) return "a process of another user or container";
  const auto pid = static_cast<pid_t>(holder->pid);
  return IsOurs(pid) ? "" : absl::StrCat(holder->name, " (pid ", pid, ")");
}

}  // namespace muster::host
