// What SageMaker's training toolkit tells its scripts by SM_* variables and arguments, made of the files beside
// resourceconfig.json, so that such scripts run without the toolkit. Pure.
//
// Facts: sagemaker-training-toolkit 33839372 (mapping.py, environment.py, params.py). Names are upper case and
// keep their dashes (SM_HP_BATCH-SIZE). Hyperparameters are strings, in which the SDK has put JSON again: a string
// in quotes loses these, true is "true" in a variable and "True" as an argument, null is nothing. Those of the
// toolkit itself (sagemaker_*, _tuning_*) are left out.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "agent/discovery/cluster_view.h"

namespace muster::discovery {

inline constexpr size_t kMaxHyperparametersBytes = 512 << 10;  // SageMaker's own limit is 250 KB
inline constexpr size_t kMaxInputConfigBytes = 512 << 10;
inline constexpr int kMaxInputsDepth = 16;
inline constexpr size_t kMaxVariableBytes = 64
                                            << 10;  // the kernel takes 128 KiB for one; longer ones are left out

struct TrainingInputs {
  Environment variables;               // SM_HP_*, SM_HPS, SM_CHANNEL_*, SM_CHANNELS, SM_MODEL_DIR, ...
  std::vector<std::string> arguments;  // "--name", "value", ..., by name
  std::vector<std::string> warnings;   // one line each
};

// `folder`: where hyperparameters.json and inputdataconfig.json are; either may be absent. InvalidArgument: one
// line.
absl::StatusOr<TrainingInputs> ReadTrainingInputs(const FileReader& read_file, const std::string& folder);

}  // namespace muster::discovery
