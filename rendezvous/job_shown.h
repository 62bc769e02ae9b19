// What a coordinator shows of its job beside its log: the web server of --http, the file of --events, and the
// command of --on-event. In the agent of the primary, and in `muster coordinator`. Lives on the loop thread.
#pragma once

#include <functional>
#include <optional>

#include "absl/time/time.h"
#include "base/core/note.h"
#include "base/io/event_loop.h"
#include "muster/v1/host.pb.h"
#include "rendezvous/coordinator_service.h"
#include "rendezvous/web/event_command.h"
#include "rendezvous/web/event_file.h"
#include "rendezvous/web/web_server.h"

namespace muster::rendezvous {

inline constexpr char kNotAllShown[] =
    "not waiting any longer at the end: some events were not told to --on-event, or not written to --events";
inline constexpr absl::Duration kLastShown = absl::Seconds(5);  // for what is left to show once the job is over

class JobShown {
 public:
  // All pointers must outlive this. note: logs what does not work.
  JobShown(EventLoop* loop, const v1::NodeConfig& config, CoordinatorService* service,
           const std::function<void(const Note&)>& note);
  JobShown(const JobShown&) = delete;
  JobShown& operator=(const JobShown&) = delete;

  void OnTick();
  void StopListening() { web_.reset(); }  // the port of --http is another's from now on
  // Every event so far is in the file, and the command has been told of it.
  bool IsDone() const;

 private:
  CoordinatorService* const service_;
  std::optional<WebServer> web_;
  std::optional<EventFile> file_;
  std::optional<EventCommand> command_;
};

}  // namespace muster::rendezvous
