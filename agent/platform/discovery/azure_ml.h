// Azure ML. Its MPI jobs have Open MPI's variables and the first node in AZ_BATCH_MASTER_NODE ("ip:port", of which
// the port belongs to Azure) or, on one node, AZ_BATCHAI_MPI_MASTER_NODE. Its PyTorch jobs have MASTER_ADDR,
// NODE_RANK, RANK and WORLD_SIZE. muster must run once per node: process_count_per_instance must be 1.
#pragma once

#include "agent/platform/discovery/cluster_view.h"

namespace muster::discovery {

Reading ReadAzureMl(const Evidence& evidence);

}  // namespace muster::discovery
