// The command of a check (--node-setup, --preflight): a shell command whose exit code decides whether this node is
// fit for a round. It is started like a worker; a sweep ends it and the processes that it leaves. Lives on the
// loop thread.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "agent/host/process/spawner.h"
#include "base/console/output_tail.h"
#include "base/console/writer.h"

namespace muster::host {

inline constexpr size_t kMaxCheckOutput = 512 * 1024;  // approximate bytes of one run shown on standard error

class CheckCommand {
 public:
  CheckCommand(Spawner* spawner, Writer* writer) : spawner_(spawner), writer_(writer) {}

  // name: "preflight", for the lines that it writes. `ended` gets the result as for a worker; if the command could
  // not be started, error_text says why. Its output goes to muster's standard error; a slow reader there never
  // blocks the command.
  using Ended = std::function<void(const Ending& ending)>;
  absl::Status Start(const std::string& name, const std::string& command, const EnvironmentMap& environment,
                     const Ended& ended);

  // Whether the output was read to its end, which happens soon after the last process that holds it has ended.
  bool complete() const { return tail_ == nullptr || tail_->ended(); }
  std::string LastLine() const;

 private:
  Spawner* const spawner_;
  Writer* const writer_;
  std::shared_ptr<OutputTail> tail_;  // of the latest run
};

}  // namespace muster::host
