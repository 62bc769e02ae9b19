#include "agent/host/worker_output.h"

#include <future>
#include <utility>

#include "agent/host/log.h"
#include "proto/base/status_macros.h"
#include "proto/base/thread.h"

namespace muster::host {
namespace {

constexpr char kPart[] = "host";

// What opening an attempt came to.
struct Opened {
  absl::Status status;
  std::string attempt;
};

Opened Open(LogFiles* files, uint32_t restart_count, int slots) {
  Opened opened;
  opened.status = files->MakeAttempt(restart_count, slots);
  opened.attempt = files->attempt();
  return opened;
}

}  // namespace

WorkerOutput::WorkerOutput(OutputPlan plan, int slots) : plan_(std::move(plan)), slots_(slots) {
  const bool wants_folder = plan_.writes_files() || !plan_.log_dir.empty();
  if (wants_folder && !forbids_files()) files_ = std::make_shared<LogFiles>(plan_.log_dir, plan_.run_id);
}

void WorkerOutput::BeginRound(const v1::Round& round) {
  attempt_.clear();
  if (!files_) return;
  std::packaged_task<Opened()> task(
      [files = files_, count = round.restart_count(), slots = slots_] { return Open(files.get(), count, slots); });
  std::future<Opened> result = task.get_future();
  auto thread = StartThread(std::move(task));
  Opened opened;
  if (!thread.ok()) {
    opened.status = thread.status();
  } else {
    thread->detach();
    if (result.wait_for(absl::ToChronoMilliseconds(kOpenLimit)) == std::future_status::ready) {
      opened = result.get();
    } else {
      opened.status = absl::DeadlineExceededError("the file system does not answer");
      files_.reset();
    }
  }
  if (!opened.status.ok()) {
    Log(Severity::kWarning, kPart,
        "the workers go on without files: " + std::string(AsStd(opened.status.message())));
  }
  attempt_ = opened.attempt;
}

std::string WorkerOutput::AttemptFolder(int local_rank) const {
  return attempt_.empty() ? "" : attempt_ + "/" + std::to_string(local_rank);
}

}  // namespace muster::host
