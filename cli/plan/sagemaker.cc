#include "cli/plan/sagemaker.h"

#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "agent/discovery/sagemaker.h"

namespace muster::cli {
namespace {

constexpr char kFailureVariable[] = "MUSTER_SAGEMAKER_FAILURE";  // path of another file
constexpr char kCodeFolder[] = "/opt/ml/code/";
constexpr char kProgramVariable[] = "SAGEMAKER_PROGRAM";  // the SageMaker toolkit's variable for the script
constexpr char kGpusVariable[] = "SM_NUM_GPUS";

std::string ValueOf(const Environment& environment, const char* name) {
  const auto found = environment.find(name);
  return found == environment.end() ? "" : found->second;
}

// Drops the word `train`: SageMaker runs `docker run IMAGE train`, which appends it to the ENTRYPOINT.
absl::Status DropTrainWord(const Environment& environment, RunPlan* plan) {
  if (!plan->script_arguments.empty()) {
    if (plan->script_arguments.back() != kTrainWord) return absl::OkStatus();
    plan->script_arguments.pop_back();
    plan->notes.emplace_back("the argument train, which SageMaker adds, is not passed to the script");
    return absl::OkStatus();
  }
  if (plan->script != kTrainWord) return absl::OkStatus();
  const std::string program = ValueOf(environment, kProgramVariable);
  if (program.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "no script was given, only the argument train, which SageMaker adds: append the script to the image's "
        "ENTRYPOINT, as in [\"muster\", \"run\", \"train.py\"], or set ",
        kProgramVariable, " to one in ", kCodeFolder));
  }
  plan->script = program.front() == '/' ? program : kCodeFolder + program;
  return absl::OkStatus();
}

}  // namespace

bool OnSageMaker(const Environment& environment) {
  return access(discovery::ResourceConfigPath(environment).c_str(), F_OK) == 0;
}

std::string SageMakerFailureFile(const Environment& environment) {
  const std::string named = ValueOf(environment, kFailureVariable);
  return named.empty() ? kSageMakerFailureFile : named;
}

absl::Status TakeSageMaker(const Settings& settings, const Environment& environment, const Machine& machine,
                           RunPlan* plan) {
  const bool as_arguments = settings.hyperparameters_as_args && settings.hyperparameters_as_args->value;
  if (plan->view.source != kSageMaker) {
    if (as_arguments) {
      plan->view.warnings.push_back(settings.hyperparameters_as_args->source +
                                    ": ignored, since the membership does not come from SageMaker");
    }
    if (settings.instance_groups) {
      plan->view.warnings.push_back(settings.instance_groups->source +
                                    ": ignored, since the membership does not come from SageMaker");
    }
  }
  if (plan->platform != kSageMaker) return absl::OkStatus();
  // SageMaker does this with every container, wherever the membership comes from.
  if (absl::Status dropped = DropTrainWord(environment, plan); !dropped.ok()) return dropped;
  plan->report.failure_file = SageMakerFailureFile(environment);
  if (plan->view.source != kSageMaker || plan->view.role == discovery::NodeRole::kAux) return absl::OkStatus();
  for (const std::string& argument : plan->view.hyperparameters) {
    // Escapes dollars: ${local_rank} is replaced in the script's arguments.
    if (as_arguments) plan->script_arguments.push_back(absl::StrReplaceAll(argument, {{"$", "$$"}}));
  }
  if (environment.count(kGpusVariable) == 0) {
    plan->view.for_workers[kGpusVariable] = absl::StrCat(machine.accelerators().count);
  }
  return absl::OkStatus();
}

}  // namespace muster::cli
