// Variables set on each node by users, and by platforms without their own source: MASTER_ADDR, and
//   NODE_RANK and NNODES (or NUM_NODES),
//   RANK and NNODES, or
//   RANK and WORLD_SIZE, both counting nodes: Alibaba's PAI-DLC, Baidu's AIHC, older operators of PyTorchJobs, and
//   Vertex AI.
// Beside LOCAL_RANK they describe a process, not a node. A muster inside a worker of torchrun or muster is refused
// unless options say what it should do.
#pragma once

#include "agent/platform/discovery/cluster_view.h"

namespace muster::discovery {

Reading ReadStatic(const Evidence& evidence);

}  // namespace muster::discovery
