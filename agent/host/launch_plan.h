// The part of a host's configuration that its core does not need: how workers are started and where their output
// goes. Made from the command line.
#pragma once

#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "agent/host/agent_socket.h"
#include "agent/host/core/debugged_rank.h"
#include "agent/host/core/output_plan.h"
#include "agent/host/core/worker_environment.h"
#include "agent/host/last_command.h"
#include "agent/host/port_keeper.h"
#include "agent/host/preload/learned_modules.h"
#include "agent/host/preload/preloader.h"
#include "base/proc/process_setup.h"

namespace muster::host {

// Which workers inherit standard input; the others read /dev/null.
struct StdinRule {
  enum Kind {
    kDefault,  // the only worker of a node with one slot; else all workers if it is the keyboard; else none
    kAll,
    kNone,
    kRank,  // one worker, by global rank
  };
  Kind kind = kDefault;
  int rank = 0;
};

struct LaunchPlan {
  std::vector<std::vector<std::string>> argv;  // by local rank, one for each slot
  std::string file;                            // the file to execute; argv[0] may be another name of it
  std::string program;                         // name of the script, for reports
  WorkerEnvironmentOptions environment;
  EnvironmentMap inherited;  // muster's own environment, for workers and agent
  StdinRule stdin_rule;
  std::optional<DebuggedRank> debugged;                 // of the whole job: its worker may be on another node
  std::vector<std::vector<std::string>> debugged_argv;  // as argv, under the debugger; empty: nothing is debugged
  Inherited process;                                    // returned by PrepareProcess()
  std::vector<std::string> agent_arguments;             // appended to "agent --fd 3"
  PortRange worker_ports;
  std::vector<std::set<int>> cpus;  // CPUs that each worker is bound to, by local rank; empty: no binding
  OutputPlan output;
  ReportPlan report;
  std::string setup;       // shell command; empty: none
  std::string preflight;   // the same
  std::string on_success;  // the same
  std::string on_failure;  // the same
  LastCommandLimits last_command_limits;
  std::string progress_file;           // empty: none is watched
  LearnedModules learned;              // of --preload auto
  bool preloads = false;               // --preload
  bool watches_activity = false;       // the workers' signs of life are counted (--hang-timeout)
  std::function<void()> before_start;  // called before the first process is started; may be empty
  OwnedFd health;                      // from ListenForHealth()
  std::optional<AgentSocket> socket;   // where the agent comes from a sidecar; nullopt: the host starts it
  bool ends_orphans = false;           // the run has a name, so orphans of an earlier host can be recognized
};

// For a command that runs once for the node; see NodeEnvironment. marker: from FormatMarker.
EnvironmentMap EnvironmentOfNode(const LaunchPlan& plan, const std::string& marker, std::optional<int> place);

// How the Python of --preload is started.
PreloadCommand MakePreloadCommand(const LaunchPlan& plan, const std::string& marker);

// keyboard: standard input is a terminal of which this is the foreground process group (HasKeyboard).
bool GetsStdin(const StdinRule& rule, int rank, int slots, bool keyboard);

}  // namespace muster::host
