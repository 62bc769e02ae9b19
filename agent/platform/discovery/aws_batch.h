// AWS Batch multi-node parallel jobs. The main node, whatever its index, is the primary and has rank 0, since the
// job ends with it. AWS Batch tells its address to the other nodes only.
#pragma once

#include "agent/platform/discovery/cluster_view.h"

namespace muster::discovery {

Reading ReadBatch(const Evidence& evidence);

}  // namespace muster::discovery
