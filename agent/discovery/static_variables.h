// Variables that people and platforms without a reading of their own set on each node: MASTER_ADDR, and
//   NODE_RANK and NNODES,
//   RANK and NNODES, or
//   RANK and WORLD_SIZE, both of nodes: Alibaba's PAI DLC, older operators of PyTorchJobs, and Vertex AI mean so.
// Beside LOCAL_RANK they are those of a process, and say nothing of nodes; a worker of torchrun or muster, in
// which another one is started without being told whether it shall be alone, is refused.
#pragma once

#include "agent/discovery/cluster_view.h"

namespace muster::discovery {

Reading ReadStatic(const Evidence& evidence);

}  // namespace muster::discovery
