// TF_CONFIG, as TFJob (Kubeflow), Vertex AI and people write it.
//
// {"cluster": {"chief": ["host:port"], "worker": [...], "ps": [...]}, "task": {"type": "worker", "index": 0}}.
// - Trainers are the chief (or "master", its old name), then the workers; without a chief worker 0 is the primary.
// - ps and evaluator are aux. An evaluator is in `task` and need not be in `cluster`.
// - Refused: the sparse form, in which a worker sees itself alone; lists of other names than these.
#pragma once

#include "agent/discovery/cluster_view.h"

namespace muster::discovery {

inline constexpr size_t kMaxTfConfigBytes = 1 << 20;
inline constexpr int kMaxTfConfigDepth = 32;

// nullopt where TF_CONFIG is absent or blank, or says nothing of a cluster, as TensorFlow takes it. The run id is
// CLOUD_ML_JOB_ID, or where there is none a name made of the primary's address; "-trial-" and the trial are
// appended.
Reading ReadTfConfig(const Environment& environment);

}  // namespace muster::discovery
