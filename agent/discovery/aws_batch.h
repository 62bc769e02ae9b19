// AWS Batch multi-node parallel jobs. The main node, whichever index it has, is the primary and so has rank 0: the
// job ends with it. It is told no address, as it is itself; the others are.
#pragma once

#include "agent/discovery/cluster_view.h"

namespace muster::discovery {

Reading ReadBatch(const Evidence& evidence);

}  // namespace muster::discovery
