// `muster env --check`: what looks wrong on this node, before a job is started here. Pure: the machine and the
// network are asked through the probe that is given.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cli/env/env_report.h"

namespace muster::cli {

inline constexpr int64_t kLeastSharedMemory = int64_t{1} << 30;  // bytes; containers have 64 MiB where nobody asks
inline constexpr absl::Duration kMaxClockOffset = absl::Seconds(1);  // beyond it logs cannot be put in order
inline constexpr size_t kMaxCgroupFileBytes = 1 << 20;

struct CheckProbe {
  // Addresses of a name, as rendezvous::ResolveHost says.
  std::function<absl::StatusOr<std::vector<std::string>>(const std::string& host)> resolve;
  // Whether somebody accepts a connection there. Unavailable: refused, so the machine is there; DeadlineExceeded:
  // no answer; others with the kernel's words.
  std::function<absl::Status(const std::string& address, uint16_t port)> connect;
  // How far this machine's clock is ahead of the coordinator's, asked once somebody accepts connections there.
  // PermissionDenied: it does not take our token; NotFound: who answers is no coordinator; others: one that does
  // not tell.
  std::function<absl::StatusOr<absl::Duration>(const v1::NodeConfig& config)> clock_ahead;
  // Whether this node's coordinator could listen where it is to. Unavailable: somebody does already.
  std::function<absl::Status(const v1::NodeConfig& config)> listen;
  // Who has this port of this machine, for people; empty: nobody who can be seen.
  std::function<std::string(uint16_t port)> port_holder;
  // Whether this is an address of this machine.
  std::function<bool(const std::string& address)> is_own_address;
  // Whether a connection to that address comes back to this machine's own port, on which nobody listens now. OK:
  // it does, as through a forwarder; else how it failed.
  std::function<absl::Status(const std::string& address, const v1::NodeConfig& config)> leads_here;
  std::function<absl::StatusOr<int64_t>()> shared_memory_bytes;  // the size of /dev/shm; NotFound: there is none
  discovery::FileReader read_file;
};

struct Finding {
  enum class Kind {
    kGood,
    kNote,        // not as it might be, but that is usual
    kWrong,       // looks wrong
    kUnreachable  // looks wrong, and keeps this node out of the job
  };
  Kind kind = Kind::kGood;
  std::string name;    // "primary's name", "/dev/shm"
  std::string text;    // one sentence
  std::string advice;  // what to do; empty where nothing is to be done
};

// program: whether what is to be run can be.
std::vector<Finding> CheckNode(const EnvReport& report, const machine::ProgramCheck& program,
                               const CheckProbe& probe);

// 0: nothing looks wrong. 69: the primary cannot be reached, as `muster run` would find. 1: something else.
int ExitCodeOf(const std::vector<Finding>& findings);

// One line each, and their advice below them.
std::string CheckTable(const std::vector<Finding>& findings);

}  // namespace muster::cli
