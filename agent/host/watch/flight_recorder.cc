#include "agent/host/watch/flight_recorder.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/console/log.h"
#include "base/io/bounded_call.h"
#include "base/io/owned_fd.h"

namespace muster::host {
namespace {

constexpr const char* kPart = "host";
constexpr absl::Duration kRemoveLimit = absl::Seconds(1);
constexpr int64_t kNotAsked = -1;  // in the place of a size
constexpr char kPipeVariable[] = "TORCH_NCCL_DEBUG_INFO_PIPE_FILE";

int64_t SizeOf(const std::string& file) {
  struct stat info = {};
  return lstat(file.c_str(), &info) == 0 ? static_cast<int64_t>(info.st_size) : 0;
}

// Any byte is a question. Nobody reads the pipe of a rank that has no NCCL, or not yet. A file of an earlier
// question in the same round would be taken for the answer.
bool Ask(const RecorderPaths& paths) {
  if (paths.pipe.empty()) return false;
  unlink(paths.file.c_str());
  const OwnedFd fd(open(paths.pipe.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW));
  return fd.valid() && write(fd.get(), "1", 1) == 1;
}

}  // namespace

FlightRecorders::~FlightRecorders() {
  if (pipes_ == nullptr) return;
  (void)CallWithin(kRemoveLimit, [folder = pipes_] {
    folder->Remove();
    return true;
  });
}

void FlightRecorders::BeginRound(const std::string& folder, uint32_t restart_count, absl::Duration limit) {
  pipe_stem_.clear();
  if (folder.empty() || gave_up_) return;
  if (pipes_ == nullptr) {
    auto made = CallWithin(limit, [] { return ScratchFolder::Make(); });
    gave_up_ = !made || !made->ok();
    if (gave_up_) {
      return Log(Severity::kWarning, kPart,
                 absl::StrCat("NCCL's flight recorders are not used: ",
                              made ? std::string(made->status().message())
                                   : absl::StrCat("the file system of ", TemporaryFolder(), " does not answer")));
    }
    pipes_ = std::make_shared<ScratchFolder>(*std::move(*made));
  }
  pipe_stem_ = absl::StrCat(pipes_->path(), "/", restart_count, "-");
  file_stem_ = folder + "/nccl_trace_rank_";
}

EnvironmentMap FlightRecorders::Variables() const {
  if (pipe_stem_.empty()) return {};
  return {{kPipeVariable, pipe_stem_},
          {"TORCH_FR_DUMP_TEMP_FILE", file_stem_},
          {"TORCH_FR_BUFFER_SIZE", absl::StrCat(kRecorderEntries)},
          {"TORCH_NCCL_DUMP_ON_TIMEOUT", "1"}};  // else the pipe is looked at every eight minutes
}

RecorderPaths FlightRecorders::PathsOf(int rank) const {
  if (pipe_stem_.empty()) return {};
  return {absl::StrCat(pipe_stem_, rank, ".pipe"), absl::StrCat(file_stem_, rank)};
}

RecorderDump::RecorderDump(BootTime now, std::vector<RecorderPaths> recorders) : asked_at_(now), next_look_(now) {
  for (const RecorderPaths& paths : recorders) recorders_.push_back({.file = paths.file});
  over_ = std::all_of(recorders.begin(), recorders.end(), [](const auto& paths) { return paths.pipe.empty(); });
  if (over_) return;
  look_ = CallAside([recorders = std::move(recorders)] {
    Sizes none_yet;
    for (const RecorderPaths& paths : recorders) none_yet.push_back(Ask(paths) ? 0 : kNotAsked);
    return none_yet;
  });
  over_ = !look_;
}

void RecorderDump::Poll(BootTime now) {
  if (over_) return;
  if (now >= asked_at_ + kRecorderLimit) {
    over_ = true;
    return;
  }
  if (look_ && look_->wait_for(std::chrono::seconds(0)) == std::future_status::ready) {
    Take(look_->get());
    look_.reset();
    next_look_ = now + kRecorderPoll;
  }
  if (look_ || over_ || now < next_look_) return;
  look_ = CallAside([recorders = recorders_] {
    Sizes sizes;
    for (const Recorder& one : recorders) sizes.push_back(one.size == kNotAsked ? kNotAsked : SizeOf(one.file));
    return sizes;
  });
}

void RecorderDump::Take(const Sizes& sizes) {
  over_ = true;
  for (size_t i = 0; i < recorders_.size(); ++i) {
    Recorder& recorder = recorders_[i];
    recorder.whole = sizes[i] > 0 && sizes[i] == recorder.size;
    recorder.size = sizes[i];
    over_ = over_ && (recorder.whole || recorder.size == kNotAsked);
  }
}

}  // namespace muster::host
