// SageMaker conventions besides membership: the argument `train`, hyperparameters as arguments, the failure file.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "cli/options/settings.h"
#include "cli/plan/run_plan.h"

namespace muster::cli {

inline constexpr char kSageMaker[] = "sagemaker";  // the source's name
inline constexpr char kTrainWord[] = "train";      // `docker run IMAGE train`

// Whether this is a SageMaker training container: resourceconfig.json exists.
bool OnSageMaker(const Environment& environment);

inline constexpr char kSageMakerFailureFile[] = "/opt/ml/output/failure";  // by default
std::string SageMakerFailureFile(const Environment& environment);

// Completes a plan for a SageMaker container; leaves others unchanged. Hyperparameters and variables are set only
// if the membership comes from SageMaker. InvalidArgument: no script but the argument `train`. Pure, except that
// it may count accelerators.
absl::Status TakeSageMaker(const Settings& settings, const Environment& environment, const Machine& machine,
                           RunPlan* plan);

}  // namespace muster::cli
