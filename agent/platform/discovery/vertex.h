// Vertex AI custom training: the variable CLUSTER_SPEC of every replica.
//
// Accepted: {"cluster": {"workerpool0": ["host:port"], ...}, "task": {"type": "workerpool1", "index": 0}}.
// - Pool 0 is the primary, of exactly one replica; a job of a single replica calls it "chief".
// - Trainers are pools 0 and 1 in the order of the lists; the others (parameter or reduction servers, evaluators)
//   are aux. With all_pools every replica trains, pools in numeric order.
// - `job` (object, string or null), `environment` and unknown keys of the top level and of `task` are ignored.
// - Refused: a pool that is null or no list, an index written as 1e0, a pool whose name Vertex AI does not use: a
//   document that is only partly understood would start only a part of the job.
#pragma once

#include "agent/platform/discovery/cluster_view.h"

namespace muster::discovery {

// More than the kernel's 128 KiB for one variable: specs of up to 20,000 replicas from other sources are read,
// too.
inline constexpr size_t kMaxClusterSpecBytes = 1 << 20;
inline constexpr int kMaxClusterSpecDepth = 32;

struct VertexOptions {
  bool all_pools = false;
};

// Puts the folders of AIP_MODEL_DIR and so on, as the paths /gcs/... that workers see, into view->for_workers.
void TakeVertexFolders(const Environment& environment, ClusterView* view);

// nullopt if CLUSTER_SPEC is absent, empty or blank. The run id is CLOUD_ML_JOB_ID, or else derived from the
// primary's address; "-trial-" and the trial are appended.
Reading ReadVertex(const Environment& environment, const VertexOptions& options);

}  // namespace muster::discovery
