#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "base/core/status_macros.h"
#include "cli/plan/parts.h"

namespace muster::cli {
namespace {

using discovery::ContainerConventions;

// Drops the word that the platform appends to the ENTRYPOINT, as SageMaker runs `docker run IMAGE train`.
absl::Status DropAppendedWord(const ContainerConventions& container, const char* platform,
                              const Environment& environment, RunPlan* plan) {
  if (!plan->script_arguments.empty()) {
    if (plan->script_arguments.back() != container.word) return absl::OkStatus();
    plan->script_arguments.pop_back();
    plan->shown.notes.push_back(
        absl::StrCat("the argument ", container.word, ", which ", platform, " adds, is not passed to the script"));
    return absl::OkStatus();
  }
  if (plan->launch.program != container.word) return absl::OkStatus();
  const std::string program = ValueOf(environment, container.program_variable);
  if (program.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "no script was given, only the argument ", container.word, ", which ", platform,
        " adds: append the script to the image's ENTRYPOINT, as in [\"muster\", \"run\", \"train.py\"], or set ",
        container.program_variable, " to one in ", container.code_folder));
  }
  plan->launch.program = program.front() == '/' ? program : container.code_folder + program;
  return absl::OkStatus();
}

template <typename T>
void WarnOfNoEffect(const Given<T>& given, RunPlan* plan) {
  if (!given) return;
  const auto platforms = discovery::LabelsOf([](const discovery::Traits& t) { return t.container != nullptr; });
  plan->shown.warnings.push_back(absl::StrCat(given->source, ": ignored, since the membership does not come from ",
                                              absl::StrJoin(platforms, " or ")));
}

}  // namespace

const ContainerConventions* ContainerHere(const Environment& environment, const machine::FileProbe& probe) {
  for (const discovery::Source& source : discovery::Sources()) {
    const ContainerConventions* const container = source.traits.container;
    if (container != nullptr && probe(container->mark(environment)).exists) return container;
  }
  return nullptr;
}

std::string FailureFile(const ContainerConventions& container, const Environment& environment) {
  const std::string named = ValueOf(environment, container.failure_variable);
  return named.empty() ? container.failure_file : named;
}

absl::Status TakeContainer(const PlanInput& in, RunPlan* plan) {
  const auto& [settings, environment, machine, membership] = in;
  const bool as_arguments = IsOn(settings.program.hyperparameters_as_args);
  const ContainerConventions* const of_membership = discovery::TraitsOf(membership.view.source).container;
  if (of_membership == nullptr) {
    if (as_arguments) WarnOfNoEffect(settings.program.hyperparameters_as_args, plan);
    WarnOfNoEffect(settings.membership.instance_groups, plan);
  }
  const discovery::Traits& platform = in.platform();
  const ContainerConventions* const container = platform.container;
  if (container == nullptr) return absl::OkStatus();
  // The platform does this with every container, wherever the membership comes from.
  RETURN_IF_ERROR(DropAppendedWord(*container, platform.label, environment, plan));
  plan->launch.report.failure_file = FailureFile(*container, environment);
  if (of_membership != container || plan->view.role == discovery::NodeRole::kAux) return absl::OkStatus();
  for (const std::string& argument : plan->view.hyperparameters) {
    // Escapes dollars: ${local_rank} is replaced in the script's arguments.
    if (as_arguments) plan->script_arguments.push_back(absl::StrReplaceAll(argument, {{"$", "$$"}}));
  }
  if (environment.count(container->gpus_variable) == 0) {
    plan->view.for_workers[container->gpus_variable] = absl::StrCat(machine.accelerators().count);
  }
  return absl::OkStatus();
}

}  // namespace muster::cli
