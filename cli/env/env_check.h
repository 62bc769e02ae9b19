// `muster env --check`: looks for problems of this node before a job is started. Pure: reads the machine and the
// network through a CheckProbe.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cli/env/env_report.h"
#include "cli/env/finding.h"

namespace muster::cli {

inline constexpr int64_t kLeastSharedMemory = int64_t{1} << 30;  // bytes; the default in containers is 64 MiB
inline constexpr absl::Duration kMaxClockOffset =
    absl::Seconds(1);  // beyond it logs of two nodes cannot be put in order
inline constexpr size_t kMaxCgroupFileBytes = 1 << 20;

struct CheckProbe {
  // Addresses of a name, as rendezvous::ResolveHost returns them.
  std::function<absl::StatusOr<std::vector<std::string>>(const std::string& host)> resolve;
  // Whether a connection is accepted there. Unavailable: refused, so the machine itself answers; DeadlineExceeded:
  // no answer; other codes carry the kernel's error text.
  std::function<absl::Status(const std::string& address, uint16_t port)> connect;
  // Asks the coordinator whether it would admit this node, without joining the job; called once connections are
  // accepted there. Returns how far this machine's clock is ahead of the coordinator's. PermissionDenied: it
  // rejects our token; FailedPrecondition: it refuses this node, for example for its run id; NotFound: the program
  // that answers is not a coordinator; other codes: it does not report its time.
  std::function<absl::StatusOr<absl::Duration>(const v1::NodeConfig& config)> ask_coordinator;
  // Whether this node's coordinator can listen at its address. Unavailable: the port is in use.
  std::function<absl::Status(const v1::NodeConfig& config)> listen;
  // Description of the process that holds this port of this machine; empty: none is visible.
  std::function<std::string(uint16_t port)> port_holder;
  // Whether this is an address of this machine.
  std::function<bool(const std::string& address)> is_own_address;
  // Whether a connection to that address arrives at this machine's own port, which is free now. OK: it does, for
  // example through NAT; else how it failed.
  std::function<absl::Status(const std::string& address, const v1::NodeConfig& config)> leads_here;
  std::function<absl::StatusOr<int64_t>()> shared_memory_bytes;  // size of /dev/shm; NotFound: it does not exist
  // Tries it. Empty: it can be made where it is expected; else the place that serves instead of TMPDIR, which is
  // named, too. The error names the folder.
  std::function<absl::StatusOr<std::string>()> make_temporary_file;
  // Whether files can be made in that folder, which may be missing. Makes nothing; the error names what is in the
  // way.
  std::function<absl::Status(const std::string& folder)> can_be_written;
  // What the log would say of the descriptors that this node's coordinator may open; empty: nothing.
  std::function<std::string(const v1::NodeConfig& config)> few_descriptors;
  // What the log would say of the age of this node's certificates; empty: nothing.
  std::function<std::string(const v1::NodeConfig& config)> age_of_certificates;
  // The version of torch that this Python would import. NotFound: none; InvalidArgument: the file is no
  // Python; other codes: it did not answer.
  std::function<absl::StatusOr<std::string>(const std::string& python)> torch_version;
  discovery::FileReader read_file;
  machine::FileProbe look_at_file;
};

// program: result of the check whether the script can be run.
std::vector<Finding> CheckNode(const EnvReport& report, const machine::ProgramCheck& program,
                               const CheckProbe& probe);

// 0: no problem. 69: the primary cannot be reached or refuses this node, as in `muster run`. 1: another problem.
int ExitCodeOf(const std::vector<Finding>& findings);

// A table with one line for each finding, its advice below it.
std::string CheckTable(const std::vector<Finding>& findings);

}  // namespace muster::cli
