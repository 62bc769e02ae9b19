// Volcano: VC_TASK_INDEX (plugin env) counts within one task of the job. With the plugin pytorch, MASTER_ADDR,
// RANK and WORLD_SIZE describe nodes. Without it, but with the plugin svc, a job of one task has its host names in
// VC_<TASK>_HOSTS.
#pragma once

#include "agent/platform/discovery/cluster_view.h"

namespace muster::discovery {

Reading ReadVolcano(const Evidence& evidence);

}  // namespace muster::discovery
