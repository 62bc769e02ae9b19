// Vertex AI custom training: the variable CLUSTER_SPEC of every replica.
//
// Accepted: {"cluster": {"workerpool0": ["host:port"], ...}, "task": {"type": "workerpool1", "index": 0}}.
// - Pool 0 is the primary, of exactly one replica; a job of a single replica calls it "chief".
// - Trainers are pools 0 and 1 in the order of the lists; the others (parameter or reduction servers, evaluators)
//   are aux. With all_pools every replica trains, pools in numeric order.
// - `job` (object, string or null), `environment` and unknown keys of the top level and of `task` are ignored.
// - Refused: a pool that is null or no list, an index spelled 1e0, a pool of a name that is not Vertex AI's: a
//   document half understood would start half a job.
#pragma once

#include "agent/discovery/cluster_view.h"

namespace muster::discovery {

// The kernel allows 128 KiB for one variable; a spec of 20,000 replicas from elsewhere is read too.
inline constexpr size_t kMaxClusterSpecBytes = 1 << 20;
inline constexpr int kMaxClusterSpecDepth = 32;

struct VertexOptions {
  bool all_pools = false;
};

// The folders of AIP_MODEL_DIR and its like as workers see them, /gcs/..., in view->for_workers.
void TakeVertexFolders(const Environment& environment, ClusterView* view);

// nullopt where CLUSTER_SPEC is absent, empty or blank. The run id is CLOUD_ML_JOB_ID, or where there is none a
// name made of the primary's address; "-trial-" and the trial are appended.
Reading ReadVertex(const Environment& environment, const VertexOptions& options);

}  // namespace muster::discovery
