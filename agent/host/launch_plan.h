// What the command line hands to a host beside its core's options: how a worker is started and where its output
// goes.
#pragma once

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "agent/host/core/output_plan.h"
#include "agent/host/core/worker_environment.h"
#include "agent/host/port_keeper.h"
#include "base/proc/process_setup.h"

namespace muster::host {

// Which worker reads our standard input; the others read /dev/null.
struct StdinRule {
  enum Kind {
    kDefault,  // the worker of a node with one slot; of several all, where it is our keyboard; else nobody
    kAll,
    kNone,
    kRank,  // one global rank
  };
  Kind kind = kDefault;
  int rank = 0;
};

struct LaunchPlan {
  std::vector<std::vector<std::string>> argv;  // by local rank, as many as there are slots
  std::string file;                            // what is executed; argv[0] may be another name of it
  std::string program;                         // for people: the script's name
  WorkerEnvironmentOptions environment;
  EnvironmentMap inherited;  // our own environment, for workers and agent
  StdinRule stdin_rule;
  Inherited process;                         // of PrepareProcess()
  std::vector<std::string> agent_arguments;  // after "agent --fd 3"
  PortRange worker_ports;
  std::vector<std::set<int>> cpus;  // by local rank, where workers are bound to some; empty: they are not
  OutputPlan output;
  ReportPlan report;
  std::string preflight;               // a shell line; empty: there is none
  std::string progress_file;           // empty: none is watched
  std::function<void()> before_start;  // called before the first process is started; may be empty
  bool ends_orphans = false;           // the run has a name, so what an earlier host of it left here can be known
};

// keyboard: standard input is a terminal that reads for us (HasKeyboard).
bool GetsStdin(const StdinRule& rule, int rank, int slots, bool keyboard);

}  // namespace muster::host
