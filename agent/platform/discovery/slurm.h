// Slurm: the variables that srun sets for the tasks of a step, and those of an allocation without srun.
//
// Observed with srun 22.05 and read in Slurm's env.c (commit 284c3b95f0): SLURM_NODEID counts within the step.
// SLURM_STEP_NODELIST, _NUM_NODES and _NUM_TASKS describe the whole step, with all groups of a heterogeneous job
// that take part in it. SLURM_JOB_NODELIST, _NUM_NODES and SLURM_NNODES may describe the allocation, the step or
// the first group. SLURM_LAUNCH_NODE_IPADDR is the node of srun, which need not be the first node. Slurm provides
// no port.
#pragma once

#include "agent/platform/discovery/cluster_view.h"

namespace muster::discovery {

// Range of the primary's port: jobs and steps that share a node get different ports, below the kernel's ephemeral
// ones.
inline constexpr uint16_t kFirstSlurmPort = 20'000;
inline constexpr uint16_t kSlurmPorts = 9'000;
inline constexpr int kMaxGpusPerNode = 1'024;

// A step of several nodes with one muster on each; nullopt otherwise. The run id consists of the job's id and, if
// they are not 0, the step's id and the number of requeues: "4711", "4711.3-requeue-1".
Reading ReadSlurm(const Evidence& evidence);

// Slurm's data about a single node. All other sources take precedence, since a step of one node may be a user's
// shell for trying out other ways to start a job. An allocation of one node without a step, as in a batch script
// or in salloc's shell, yields that node and a warning; with several nodes it is an error with the command to use
// instead. nullopt in a step of several nodes, and without an allocation.
Reading ReadSlurmNode(const Evidence& evidence);

// Whether srun started this process as a step of several nodes, so that other sources' variables mean less. False
// if the list of nodes is missing or invalid.
bool IsStepOfSeveralNodes(const Environment& environment);

}  // namespace muster::discovery
