// Open MPI's mpirun with one muster on each node (--map-by ppr:1:node): OMPI_COMM_WORLD_RANK and so on. Likewise
// MVAPICH's mpirun_rsh and Hydra's mpiexec.
//
// Sources: Open MPI 4.1, DeepSpeed's comm.py, and MVAPICH2's mpispawn.c. None of them provides an address:
// MASTER_ADDR or an option names the primary. OMPI_COMM_WORLD_NODE_RANK counts the processes of a node, not the
// nodes.
#pragma once

#include "agent/platform/discovery/cluster_view.h"

namespace muster::discovery {

// nullopt if OMPI_COMM_WORLD_RANK is not set, or for one process within a Slurm step of several nodes. Several
// processes on a node, including the first one, are refused with the command to use instead. primary_host is empty
// if MASTER_ADDR is not set. The run's name comes from mpirun's own id.
Reading ReadOpenMpi(const Evidence& evidence);

// The same for MV2_COMM_WORLD_RANK and so on, set by MVAPICH. nullopt if its size is one process, or is missing
// beside rank 0, and in a Slurm step of several nodes.
Reading ReadMvapich(const Evidence& evidence);

// The same for PMI_RANK and PMI_SIZE, set by Hydra, the mpiexec of MPICH, Intel MPI and MVAPICH. nullopt if
// PMI_SIZE is one process, or is missing beside rank 0, and in any Slurm step.
Reading ReadMpich(const Evidence& evidence);

}  // namespace muster::discovery
