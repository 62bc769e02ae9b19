// The preloading Python of this node: starts it, hears what it says, and has it fork the workers of a round. What
// is done about its news decides core/preload; python/muster_preload is its other end.
//
// Lives on the loop thread. Only Fork() blocks, within its limit.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "agent/host/core/preload.h"
#include "agent/host/process/spawner.h"
#include "base/console/writer.h"
#include "base/io/event_loop.h"
#include "base/io/owned_fd.h"

namespace muster::host {

inline constexpr size_t kMaxPreloadOutput = 512 * 1024;  // approximate bytes of its output that are shown

// How the workers are started without it.
struct PreloadCommand {
  std::string file;                  // the interpreter
  std::vector<std::string> argv;     // of one worker: all have the same number of arguments
  EnvironmentMap environment;        // what the environments of all workers have in common
  std::set<std::string> per_worker;  // variables that they do not
};

class Preloader {
 public:
  using News = std::function<void(const PreloadNews& news)>;

  // news: called on the loop, never from inside a call of this class.
  Preloader(EventLoop* loop, Spawner* spawner, Writer* writer, News news);
  ~Preloader();  // calls no `news` any more
  Preloader(const Preloader&) = delete;
  Preloader& operator=(const Preloader&) = delete;

  // Ends an earlier one.
  void Start(const PreloadCommand& command, const StartPreloader& what);
  void Stop();

  struct Worker {
    WorkerCommand command;
    std::string learn_file = "";  // gets the names of the modules that it imports, one in a line; empty: none does
    Spawner::WorkerEvents events;
    absl::Duration delay = absl::ZeroDuration();  // from its fork until it may run
    int stacks_fd = -1;  // a file to which it appends its Python stacks when it is asked for them
  };
  // Forks these workers, and has the spawner adopt them: their pids, in order. Fails for all or for none, and says
  // why in *news, which is kForked on success. Only after kReady.
  absl::StatusOr<std::vector<pid_t>> Fork(const std::vector<Worker>& workers, absl::Duration limit,
                                          PreloadNews* news);

 private:
  struct Run;  // one process

  absl::Status Launch(bool probes);
  void OnReadable();
  void OnMessage(const std::vector<std::string>& fields);
  void OnExited(const Ending& ending);
  void Tell(PreloadNews news);
  void LetRun(int status_fd, absl::Duration delay);
  absl::Status Request(const std::vector<Worker>& workers, int gate, std::vector<OwnedFd>* status_fds);

  EventLoop* const loop_;
  Spawner* const spawner_;
  Writer* const writer_;
  const News news_;
  bool probed_ = false;  // the interpreter runs the bootstrap
  PreloadCommand command_;
  StartPreloader what_;
  std::shared_ptr<Run> run_;  // nullptr: none runs
  uint64_t generation_ = 0;   // of Start and Stop: news from before are not told any more
};

}  // namespace muster::host
