// Slurm: the variables that srun gives the tasks of a step; and those of an allocation in which nobody called
// srun.
//
// Facts, seen with srun 22.05 and read in Slurm's env.c (commit 284c3b95f0): SLURM_NODEID counts within the step;
// SLURM_STEP_NODELIST, _NUM_NODES and _NUM_TASKS are those of the whole step, of all groups of a heterogeneous job
// that take part in it; SLURM_JOB_NODELIST, _NUM_NODES and SLURM_NNODES may speak of the allocation, of the step
// or of the first group. SLURM_LAUNCH_NODE_IPADDR is where srun runs, which need not be the first node. No port is
// given.
#pragma once

#include "agent/discovery/cluster_view.h"

namespace muster::discovery {

// Ports of Slurm's runs: another one for each of the jobs and steps that share a node, below those that the kernel
// hands out.
inline constexpr uint16_t kFirstSlurmPort = 20'000;
inline constexpr uint16_t kSlurmPorts = 9'000;
inline constexpr int kMaxGpusPerNode = 1'024;

// A step of several nodes, with one muster on each. nullopt otherwise. The run id is the job's, with the step's
// and the count of requeues where they are not 0: "4711", "4711.3-requeue-1".
Reading ReadSlurm(const Evidence& evidence);

// What Slurm says of a single node, which is less than what anybody else says: a step of one node may be a shell
// in somebody's allocation, in which other ways to start a job are tried out. An allocation without a step, as in
// a batch script or the shell of salloc, is that node and a warning, and with several nodes an error that says
// what to type instead. nullopt in a step of several nodes, and without an allocation.
Reading ReadSlurmNode(const Evidence& evidence);

// Whether srun started this on several nodes, for those whose own variables mean less there. A list of nodes that
// is missing or broken says nothing.
bool IsStepOfSeveralNodes(const Environment& environment);

}  // namespace muster::discovery
