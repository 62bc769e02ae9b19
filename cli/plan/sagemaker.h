// What SageMaker's way of starting a container asks for beside the place: its word `train`, hyperparameters as
// arguments, the file in which a failure is looked for.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "cli/options/settings.h"
#include "cli/plan/run_plan.h"

namespace muster::cli {

inline constexpr char kSageMaker[] = "sagemaker";  // the source's name
inline constexpr char kTrainWord[] = "train";      // `docker run IMAGE train`

// Whether this is one of its training containers: its file of hosts is there.
bool OnSageMaker(const Environment& environment);

inline constexpr char kSageMakerFailureFile[] = "/opt/ml/output/failure";  // unless another is named
std::string SageMakerFailureFile(const Environment& environment);

// Completes a plan for a container of SageMaker's; others it leaves as they are. Hyperparameters and variables are
// those of a place that SageMaker gave. InvalidArgument: `train` stands where
// a script should. Pure, but for the accelerators that are counted.
absl::Status TakeSageMaker(const Settings& settings, const Environment& environment, const Machine& machine,
                           RunPlan* plan);

}  // namespace muster::cli
