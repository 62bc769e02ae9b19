// Builds the SM_* variables and arguments that SageMaker's training toolkit provides to scripts, from the files
// beside resourceconfig.json, so that such scripts run without the toolkit. Pure.
//
// Source: sagemaker-training-toolkit 33839372 (mapping.py, environment.py, params.py). Names are upper case and
// keep their dashes (SM_HP_BATCH-SIZE). Hyperparameters are strings in which the SDK has encoded JSON: the quotes
// of a string are removed, true becomes "true" in a variable and "True" as an argument, null becomes empty. The
// toolkit's own ones (sagemaker_*, _tuning_*) are left out.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "agent/platform/discovery/cluster_view.h"

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

// folder: contains hyperparameters.json and inputdataconfig.json, each of which may be missing. InvalidArgument:
// one line.
absl::StatusOr<TrainingInputs> ReadTrainingInputs(const FileReader& read_file, const std::string& folder);

}  // namespace muster::discovery
