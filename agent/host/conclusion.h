// What a host does once its core has decided how it ends: it shows the rest of the output and writes the reports
// (Closing), runs the job's last command, ends what that has left, and says its last line. Lives on the loop
// thread.
#pragma once

#include <functional>
#include <string>

#include "agent/host/closing.h"
#include "agent/host/core/effects.h"
#include "agent/host/core/report.h"
#include "agent/host/last_command.h"
#include "agent/host/launch_plan.h"
#include "agent/host/output/worker_output.h"
#include "agent/host/process/spawner.h"
#include "agent/host/process/sweeper.h"
#include "base/console/writer.h"
#include "base/io/event_loop.h"

namespace muster::host {

// How the process must end.
struct HostEnd {
  int exit_code = 0;
  int signal = 0;  // not 0: it must end by this signal (EndBySignal) instead of exiting with the code
};

// What the last command has left is not waited for longer.
inline constexpr absl::Duration kLastSweepLimit = absl::Seconds(1);

class Conclusion {
 public:
  // All of them must outlive this object.
  struct Parts {
    EventLoop* loop;
    Spawner* spawner;
    Sweeper* sweeper;
    WorkerOutput* output;
    Writer* writer;
    const LaunchPlan* plan;
  };
  // about: the fields of the report that are known from the start. marker: of this host, for the command's
  // environment. done: called once, from the loop.
  Conclusion(const Parts& parts, JobEnd about, std::string marker, std::function<void(HostEnd end)> done);

  void Begin(const Finish& finish);
  void Hurry(bool cancel);  // a request to end has come since; cancel: by Ctrl-C
  // For what a sweep has left. True: the sweep was that of the last command.
  bool OnSwept(const std::string& left);

 private:
  void TakeLastCommand(LastCommand which);
  void RunLastCommand();
  EnvironmentMap EnvironmentOfLastCommand() const;
  void OnLastCommandEnded(const LastCommandEnd& end);
  void SweepAndEnd();
  void End();

  const Parts parts_;
  JobEnd job_;
  const std::string marker_;
  const std::function<void(HostEnd end)> done_;
  Closing closing_;
  LastCommandRun command_;
  std::string line_;         // of the last command; empty: none follows
  const char* option_ = "";  // that has given it
  bool sweeping_ = false;    // what the last command has left
  bool cancelled_ = false;
  bool ended_ = false;
  HostEnd end_;
};

}  // namespace muster::host
