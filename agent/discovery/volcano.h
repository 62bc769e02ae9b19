// Volcano: VC_TASK_INDEX (plugin env) counts within one task of the job. With the plugin pytorch MASTER_ADDR, RANK
// and WORLD_SIZE are of nodes. Without it, and with the plugin svc, a job with one task has its names in
// VC_<TASK>_HOSTS.
#pragma once

#include "agent/discovery/cluster_view.h"

namespace muster::discovery {

Reading ReadVolcano(const Evidence& evidence);

}  // namespace muster::discovery
