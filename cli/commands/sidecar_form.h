// A node in two containers: `muster host` has the program, `muster run --host-socket` the options and the agent.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cli/commands/commands.h"
#include "cli/options/command_line.h"
#include "cli/options/settings.h"
#include "muster/v1/host.pb.h"

namespace muster::cli {

inline constexpr char kHostSocketVariable[] = "MUSTER_HOST_SOCKET";

// The socket that --host-socket names, or else the variable; empty: neither. line: the parsed arguments; if they
// cannot be parsed, the option is looked for among the words. Pure.
std::string HostSocketOf(const absl::StatusOr<CommandLine>& line, const std::vector<std::string>& arguments,
                         const Environment& environment);

// What the sidecar tells the host: its options, and those of its variables that describe the job. Not how it gets
// the token. Pure.
v1::AgentHello HelloOf(const std::vector<std::string>& arguments, const Environment& environment,
                       const std::string& version, const std::string& sidecar_id);

// The sidecar's options as the host takes them: without those that concern the sidecar alone. Pure.
absl::StatusOr<CommandLine> OptionsFrom(const v1::AgentHello& hello);

// The environment from which the host plans: its own without MUSTER_*, which count only in the sidecar, and with
// the sidecar's variables, which override its own: an operator may describe the job to either container. Pure.
Environment PlanningEnvironment(const Environment& own, const v1::AgentHello& hello);

// Runs the sidecar; returns the exit code. line: our options, or what is wrong with them. A host that waits is
// told of anything wrong, and ends, too.
int RunAsSidecar(const absl::StatusOr<CommandLine>& line, const Environment& environment,
                 const Invocation& invocation, const std::string& socket);

}  // namespace muster::cli
