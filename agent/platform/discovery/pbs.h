// PBS (OpenPBS, PBS Professional, Torque): one muster on each host of PBS_NODEFILE, which pbsdsh or HPE PALS'
// mpiexec starts. The file has a host per line, repeated for each of its processors or chunks; the first host is
// the primary.
//
// pbsdsh sets PBS_NODENUM, the host's number, and PBS_TASKNUM, which is 1 in the batch script. The file is on the
// batch script's host alone, if that script does not copy it to a folder that all hosts share.
#pragma once

#include "agent/platform/discovery/cluster_view.h"

namespace muster::discovery {

inline constexpr size_t kMaxNodeFileBytes = 16 << 20;

// nullopt without PBS_NODEFILE, if it has one host, and for processes of an mpirun other than that of PALS. In a
// batch script of several hosts: an error with the command to use, or, with only_tasks, nullopt.
Reading ReadPbs(const Evidence& evidence, bool only_tasks);

}  // namespace muster::discovery
