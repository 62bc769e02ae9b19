// From a command line to a running host: shared by `muster run`, the links of other launchers, and `muster host`.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "base/console/log.h"
#include "base/proc/process_setup.h"
#include "cli/commands/commands.h"
#include "cli/commands/startup_signals.h"
#include "cli/plan/program.h"

namespace muster::cli {

// A node whose plan is made and whose program has been checked.
struct ReadyNode {
  RunPlan plan;
  Severity level = Severity::kInfo;
};

// What a node is planned from.
struct NodeSource {
  const CommandLine& line;
  const Environment& environment;
  const Environment& workers_inherit;   // the same variables, except in the host of a sidecar
  std::vector<std::string> notes = {};  // logged in addition to those of the plan
};

// Refuses `muster run python train.py` and the like, with the line to type instead, and a launcher that would
// start workers in each worker.
absl::Status CheckNoLauncherInside(const CommandLine& line, const RunPlan& plan,
                                   std::string_view command = "muster run");

// Errors: one line for the user; see exit_codes.h.
absl::StatusOr<ReadyNode> MakeReady(const NodeSource& source, const Invocation& invocation,
                                    StartupSignals* startup_signals);

// Whether the node's program is missing or unusable, and there is no other node that would have to be told.
bool EndsUnstarted(const ReadyNode& node);
// Reports that, and returns the exit code.
int EndUnstarted(const ReadyNode& node);

// With --debug RANK:PORT: makes the check of the program fail if its interpreter has no debugpy. Blocks for the
// start of an interpreter. For a node that surely runs the rank; elsewhere debugpy may be missing.
void TakeDebugpy(RunPlan* plan);

// Whether this process may open as many descriptors as the node needs.
absl::Status CheckRoom(const ReadyNode& node);

// Becomes the host; returns the exit code at the end of the job.
int BecomeHost(ReadyNode node, const Inherited& inherited, StartupSignals* startup_signals);

}  // namespace muster::cli
