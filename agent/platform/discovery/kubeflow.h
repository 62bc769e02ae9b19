// Kubeflow: the variables that its training operators set for torchrun.
//
// PyTorchJob (v1): PET_NNODES, PET_NODE_RANK and PET_MASTER_* beside MASTER_*, RANK and WORLD_SIZE. RANK is the
// node's number, while WORLD_SIZE counts processes; neither is read if the PET_ variables exist. With an
// elasticPolicy there are PET_RDZV_ENDPOINT and PET_NNODES=MIN:MAX, and no ranks. Older operators set no PET_*:
// see static_variables.h.
//
// Trainer (v2): only PET_NNODES, PET_NODE_RANK, PET_MASTER_ADDR and PET_MASTER_PORT. Users may set the same ones.
#pragma once

#include "agent/platform/discovery/cluster_view.h"

namespace muster::discovery {

Reading ReadPytorchJob(const Evidence& evidence);
Reading ReadTrainer(const Evidence& evidence);

}  // namespace muster::discovery
