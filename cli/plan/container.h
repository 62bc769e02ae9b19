// Conventions of a platform's training containers (discovery::ContainerConventions) besides membership: the word
// that it appends to the command line, hyperparameters as arguments, the failure file.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "agent/platform/discovery/sources.h"
#include "cli/options/settings.h"
#include "cli/plan/run_plan.h"

namespace muster::cli {

// The conventions of the container in which this process runs, known by a file; nullptr: none.
const discovery::ContainerConventions* ContainerHere(const Environment& environment);

std::string FailureFile(const discovery::ContainerConventions& container, const Environment& environment);

// Completes a plan for a container with conventions; leaves others unchanged. Hyperparameters and variables are
// set only if the membership comes from the same platform. InvalidArgument: no script but the appended word. Pure,
// except that it may count accelerators.
absl::Status TakeContainer(const Settings& settings, const Environment& environment, const Machine& machine,
                           RunPlan* plan);

}  // namespace muster::cli
