// Open MPI's mpirun: OMPI_COMM_WORLD_RANK and its like, of one muster on each node (--map-by ppr:1:node). And
// MVAPICH's mpirun_rsh and Hydra's mpiexec, in the same way.
//
// Facts: Open MPI 4.1, DeepSpeed's comm.py, and MVAPICH2's mpispawn.c. None names an address: the primary is
// MASTER_ADDR, or an option. OMPI_COMM_WORLD_NODE_RANK counts the processes of a node, not the nodes.
#pragma once

#include "agent/discovery/cluster_view.h"

namespace muster::discovery {

// nullopt where OMPI_COMM_WORLD_RANK is not set, and of one process in a step of Slurm's of several nodes. Several
// processes on a node are refused, the first of them too, with the line to write. primary_host is empty where
// MASTER_ADDR does not say it. The run is named by mpirun's own number.
Reading ReadOpenMpi(const Evidence& evidence);

// The same of MV2_COMM_WORLD_RANK and its like, as MVAPICH sets them. nullopt where its size says one process, or
// nothing beside rank 0, and in a step of Slurm's of several nodes.
Reading ReadMvapich(const Evidence& evidence);

// The same of PMI_RANK and PMI_SIZE, as Hydra sets them, the mpiexec of MPICH, Intel MPI and MVAPICH. nullopt
// where PMI_SIZE says one process, or nothing beside rank 0, and in a step of Slurm's.
Reading ReadMpich(const Evidence& evidence);

}  // namespace muster::discovery
