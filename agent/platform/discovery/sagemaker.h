// SageMaker training jobs: the file resourceconfig.json, which the platform writes into every container.
//
// {"current_host": "algo-1", "hosts": ["algo-1", "algo-2"], "network_interface_name": "eth0",
//  "instance_groups": [{"instance_group_name": "g", "hosts": [...]}]}; other keys are ignored.
// The place of a host is its position among all hosts sorted as text (algo-10 before algo-2), whatever the file's
// order; place 0 is the primary. The kernel's host name is not used, since it may differ. Without this file, the
// variables that a Python entry point derives from it are read: SM_RESOURCE_CONFIG, or SM_HOSTS and
// SM_CURRENT_HOST, with SM_MASTER_PORT.
#pragma once

#include <string>

#include "agent/platform/discovery/cluster_view.h"

namespace muster::discovery {

inline constexpr char kSageMakerConfig[] = "/opt/ml/input/config/resourceconfig.json";
inline constexpr char kSageMakerConfigVariable[] = "MUSTER_SAGEMAKER_CONFIG";  // names another file
inline constexpr size_t kMaxResourceConfigBytes = 4 << 20;
inline constexpr int kMaxResourceConfigDepth = 16;
inline constexpr size_t kMaxSageMakerHosts = 100'000;

struct SageMakerOptions {
  std::string instance_groups;                      // the groups that train, "g1,g2"; empty: all hosts
  std::string groups_source = "--instance-groups";  // the origin of instance_groups, for messages
};

// The path of the file, whether it exists or not.
std::string ResourceConfigPath(const Environment& environment);

// nullopt: neither file nor variables exist. Unavailable: the file is empty or incomplete, so it may still be
// being written. for_workers has the SM_* of sagemaker_variables.h; the caller adds those about the node's
// accelerators. The run id is TRAINING_JOB_NAME, or else derived from the primary's name.
Reading ReadSageMaker(const Evidence& evidence, const SageMakerOptions& options);

}  // namespace muster::discovery
