// What the table of sources, the plan and the coordinator say about defaults and limits, as words for help texts.
// Pure.
#pragma once

#include <string>
#include <string_view>

namespace muster::cli {

// Replaces the marks in an option's help text:
//   @GRACES@          default graces: "8s on Vertex AI and as a container's first process, 25s on ..."
//   @RETRY_CODES@     default exit codes for a retry: "134 on Vertex AI, 143 in Kubeflow"
//   @NO_REPLACEMENT@  platforms that replace no lost node: "Slurm"
//   @BEATS@           how often a node sends a message within a lease, at least
//   @MAX_AGES@        the most restarts that --restart-window can count
//   @SPLIT@           platforms that show every line of standard error as an error: "Vertex AI"
std::string WithPlatformDefaults(std::string_view help);

}  // namespace muster::cli
