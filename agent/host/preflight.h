// The preflight (--preflight): a shell line that says by its exit code whether this node is fit for a round. It is
// started like a worker, and ended, with all that it leaves, by a sweep. Lives on the loop thread.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "agent/host/process/spawner.h"
#include "base/console/stderr_tail.h"
#include "base/console/writer.h"

namespace muster::host {

inline constexpr size_t kMaxPreflightOutput = 512 * 1024;  // bytes of a run that reach our standard error, about

class Preflight {
 public:
  Preflight(Spawner* spawner, Writer* writer, std::string command)
      : spawner_(spawner), writer_(writer), command_(std::move(command)) {}

  // ended: as of a worker, in its error_text why it could not be started. Its output goes to our standard error,
  // whose reader it never waits for.
  using Ended = std::function<void(const Ending& ending)>;
  absl::Status Start(const EnvironmentMap& environment, const Ended& ended);

  // Its output is read to the end: soon after all that held it has ended.
  bool complete() const { return tail_ == nullptr || tail_->ended(); }
  std::string LastLine() const;

 private:
  Spawner* const spawner_;
  Writer* const writer_;
  const std::string command_;
  std::shared_ptr<StderrTail> tail_;  // of the newest run
};

}  // namespace muster::host
