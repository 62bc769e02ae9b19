// TF_CONFIG, as set by TFJob (Kubeflow), Vertex AI and users.
//
// {"cluster": {"chief": ["host:port"], "worker": [...], "ps": [...]}, "task": {"type": "worker", "index": 0}}.
// - Trainers are the chief (or "master", its old name), then the workers; without a chief worker 0 is the primary.
// - ps and evaluator are aux. An evaluator is in `task`, but need not be in `cluster`.
// - Refused: the sparse form, in which a worker sees only itself, and lists with other names.
#pragma once

#include "agent/platform/discovery/cluster_view.h"

namespace muster::discovery {

inline constexpr size_t kMaxTfConfigBytes = 1 << 20;
inline constexpr int kMaxTfConfigDepth = 32;

// nullopt if TF_CONFIG is absent or blank, or has neither cluster nor task, as in TensorFlow. The run id is
// CLOUD_ML_JOB_ID, or else derived from the primary's address; "-trial-" and the trial are appended.
Reading ReadTfConfig(const Environment& environment);

}  // namespace muster::discovery
