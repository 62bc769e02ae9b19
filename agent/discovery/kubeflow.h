// Kubeflow: the variables that its training operators set for torchrun.
//
// PyTorchJob (v1): PET_NNODES, PET_NODE_RANK and PET_MASTER_* beside MASTER_*, RANK and WORLD_SIZE. RANK is the
// number of the node, while WORLD_SIZE counts processes: neither is read where PET_ says it. With an elasticPolicy
// there are PET_RDZV_ENDPOINT and PET_NNODES=MIN:MAX, and no ranks. Operators before those wrote no PET_*: see
// static_variables.h.
// Trainer (v2): PET_NNODES, PET_NODE_RANK, PET_MASTER_ADDR and PET_MASTER_PORT alone, as people write them too.
#pragma once

#include "agent/discovery/cluster_view.h"

namespace muster::discovery {

Reading ReadPytorchJob(const Evidence& evidence);
Reading ReadTrainer(const Evidence& evidence);

}  // namespace muster::discovery
