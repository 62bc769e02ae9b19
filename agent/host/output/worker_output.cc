#include "agent/host/output/worker_output.h"

#include <fcntl.h>
#include <limits.h>
#include <unistd.h>

#include <optional>
#include <utility>

#include "base/console/log.h"
#include "base/core/status_macros.h"
#include "base/io/bounded_call.h"
#include "base/io/pipe.h"

namespace muster::host {
namespace {

constexpr char kPart[] = "host";
constexpr const char* kNames[] = {"stdout", "stderr"};
constexpr Streams kStreams[] = {Streams::kOut, Streams::kErr};

std::string Hostname() {
  char name[HOST_NAME_MAX + 1] = {};
  return gethostname(name, sizeof(name) - 1) == 0 ? name : "localhost";
}

}  // namespace

// Result of opening an attempt: all of its files, or an error and no file.
struct WorkerOutput::Opened {
  absl::Status status;
  std::string attempt;
  std::vector<WorkerStreams> streams;
  std::array<std::shared_ptr<FilteredLines>, 2> filtered;
};

WorkerOutput::WorkerOutput(OutputPlan plan, int slots, std::string role_name, Writer* writer)
    : plan_(std::move(plan)),
      slots_(slots),
      role_name_(std::move(role_name)),
      hostname_(Hostname()),
      writer_(writer),
      null_(open("/dev/null", O_WRONLY | O_CLOEXEC)) {
  if (Has(plan_.redraws_pass, Streams::kOut)) writer_->LetRedrawsPass(STDOUT_FILENO);
  if (Has(plan_.redraws_pass, Streams::kErr)) writer_->LetRedrawsPass(STDERR_FILENO);
  for (size_t i = 0; i < std::size(kStreams); ++i) {
    const int ranks = RanksWithPrefix(plan_, slots_, kStreams[i]);
    if (ranks > 1 && Has(plan_.grouped, kStreams[i]))
      writer_->GroupLines(i == 0 ? STDOUT_FILENO : STDERR_FILENO, ranks);
  }
  const bool wants_folder = plan_.writes_files() || !plan_.log_dir.empty();
  if (!wants_folder || forbids_files()) return;
  files_ = std::make_shared<LogFiles>(plan_.log_dir, plan_.folder_name);
  if (!plan_.writes_files()) return;
  follower_ = std::make_unique<Follower>(writer_->feed());
  if (follower_->status().ok()) return;
  Log(Severity::kWarning, kPart,
      "the workers run without log files: " + std::string(AsStd(follower_->status().message())));
  follower_.reset();
  files_.reset();
}

// ---- the files of a round ----

// Each file gets the same share of what the disk has. Errors: the disk is too full for all of them.
absl::Status WorkerOutput::ReserveAll(const std::vector<WorkerStreams>& workers) {
  std::vector<BoundedFile*> files;
  for (const WorkerStreams& streams : workers) {
    for (const Stream& stream : streams) {
      if (stream.file) files.push_back(stream.file.get());
    }
  }
  if (files.empty()) return absl::OkStatus();
  const int64_t share = ShareOfReserve(files.front()->fd(), static_cast<int>(files.size()));
  for (BoundedFile* const file : files) RETURN_IF_ERROR(file->Reserve(share));
  return absl::OkStatus();
}

WorkerOutput::Opened WorkerOutput::OpenAttempt(LogFiles* files, const OutputPlan& plan, uint32_t restart_count,
                                               int slots) {
  Opened opened;
  opened.status = files->MakeAttempt(restart_count, slots);
  if (!opened.status.ok()) return opened;
  const auto open_all = [&]() -> absl::Status {
    for (int local_rank = 0; local_rank < slots; ++local_rank) {
      WorkerStreams& streams = opened.streams.emplace_back();
      for (size_t i = 0; i < streams.size(); ++i) {
        streams[i].sink = SinkOf(plan, local_rank, kStreams[i], /*files=*/true);
        if (streams[i].sink != Sink::kFile && streams[i].sink != Sink::kShownFile) continue;
        const std::string name = std::to_string(local_rank) + "/" + kNames[i] + ".log";
        ASSIGN_OR_RETURN(streams[i].worker, files->Open(name, O_WRONLY | O_APPEND));
        ASSIGN_OR_RETURN(OwnedFd ours, files->Open(name, O_RDWR));
        streams[i].file =
            std::make_unique<BoundedFile>(std::move(ours), files->attempt() + "/" + name, plan.max_file_bytes);
      }
    }
    RETURN_IF_ERROR(ReserveAll(opened.streams));
    const std::vector<std::string>* const texts[] = {&plan.stdout_filters, &plan.stderr_filters};
    for (size_t i = 0; i < opened.filtered.size(); ++i) {
      if (texts[i]->empty()) continue;
      const std::string name = std::string("filtered_") + kNames[i] + ".log";
      ASSIGN_OR_RETURN(OwnedFd fd, files->Open(name, O_WRONLY | O_APPEND));
      opened.filtered[i] =
          std::make_shared<FilteredLines>(std::move(fd), files->attempt() + "/" + name, *texts[i]);
    }
    return absl::OkStatus();
  };
  const absl::Status status = open_all();
  if (!status.ok()) opened = Opened();
  opened.status = status;
  if (status.ok()) opened.attempt = files->attempt();
  return opened;
}

// Uses a separate thread, which also closes the last round's files: a network file system may never answer.
WorkerOutput::Opened WorkerOutput::OpenInTime(uint32_t restart_count, absl::Duration limit) {
  std::optional<Opened> opened = CallWithin(
      limit, [files = files_, plan = plan_, restart_count, slots = slots_, old = std::exchange(filtered_, {})] {
        return OpenAttempt(files.get(), plan, restart_count, slots);
      });
  if (opened) return std::move(*opened);
  Opened failed;
  failed.status = absl::DeadlineExceededError("the file system of the log folder does not answer");
  files_.reset();
  return failed;
}

void WorkerOutput::BeginRound(const v1::Round& round, absl::Duration limit) {
  EndRound();
  first_rank_ = static_cast<int>(round.first_rank());
  node_rank_ = static_cast<int>(round.node_rank());
  Opened opened;
  if (files_) opened = OpenInTime(round.restart_count(), limit);
  if (!opened.status.ok()) {
    Log(Severity::kWarning, kPart,
        "the workers run without log files: " + std::string(AsStd(opened.status.message())));
  } else if (!opened.attempt.empty() && plan_.writes_files()) {
    Log(Severity::kInfo, kPart, "the workers' output is in " + opened.attempt);
  }
  attempt_ = std::move(opened.attempt);
  streams_ = std::move(opened.streams);
  filtered_ = std::move(opened.filtered);
  streams_.resize(static_cast<size_t>(slots_));
  tails_.assign(static_cast<size_t>(slots_), {});
  bytes_.assign(static_cast<size_t>(slots_), {});
  redraws_.clear();
  redraws_.resize(static_cast<size_t>(slots_));
}

// ---- one worker ----

absl::StatusOr<WorkerOutput::Descriptors> WorkerOutput::Open(int local_rank) {
  Descriptors descriptors;
  WorkerStreams& streams = streams_[static_cast<size_t>(local_rank)];
  for (size_t i = 0; i < streams.size(); ++i) {
    if (!streams[i].file) streams[i].sink = SinkOf(plan_, local_rank, kStreams[i], /*files=*/false);
  }
  const bool merged = IsMerged(plan_, local_rank, streams[0].sink, streams[1].sink);
  for (size_t i = 0; i < streams.size(); ++i) {
    Stream& stream = streams[i];
    if (merged && i == 0) continue;  // it gets the pipe of standard error
    if (stream.sink == Sink::kPipe) {
      ASSIGN_OR_RETURN(Pipe pipe, MakePipe());
      stream.pipe = std::move(pipe.out);
      stream.worker = std::move(pipe.in);
    }
    int& given = i == 0 ? descriptors.out : descriptors.err;
    if (stream.worker.valid()) given = stream.worker.get();
    if (stream.sink == Sink::kNull && null_.valid()) given = null_.get();
  }
  if (merged) descriptors.out = descriptors.err;
  return descriptors;
}

void WorkerOutput::Spawned(int local_rank, bool started) {
  WorkerStreams& streams = streams_[static_cast<size_t>(local_rank)];
  for (size_t i = 0; i < streams.size(); ++i) {
    if (streams[i].pipe.valid()) streams[i].worker.Reset();  // so that the pipe ends when the worker closes it
    if (started) HandOver(local_rank, i == 0 ? STDOUT_FILENO : STDERR_FILENO, &streams[i]);
    streams[i].worker.Reset();
    streams[i].pipe.Reset();
    streams[i].file.reset();
  }
}

void WorkerOutput::HandOver(int local_rank, int out_fd, Stream* stream) {
  const bool passes = writer_->feed().Redraws(out_fd);
  std::shared_ptr<RedrawLimit>& limit =
      redraws_[static_cast<size_t>(local_rank)][stream->sink == Sink::kPipe ? 0 : 1];
  if (!passes && !limit) limit = std::make_shared<RedrawLimit>();
  const int rank = first_rank_ + local_rank;
  const PrefixFields fields = {role_name_, local_rank, rank, node_rank_, hostname_};
  const size_t index = out_fd == STDOUT_FILENO ? 0 : 1;
  const bool prefixed = HasPrefix(plan_, local_rank, kStreams[index]);
  const std::string prefix = prefixed ? ExpandPrefix(plan_.prefix_template, fields) : "";
  if (stream->sink == Sink::kPipe && stream->pipe.valid()) {
    PipeTaps taps;
    taps.bytes = bytes_[static_cast<size_t>(local_rank)][index] = std::make_shared<std::atomic<uint64_t>>(0);
    taps.tail = tails_[static_cast<size_t>(local_rank)][index] = std::make_shared<OutputTail>();
    const int pipe = stream->pipe.Release();
    if (!prefixed) return writer_->AdoptRawPipe(pipe, out_fd, std::move(taps));
    writer_->AdoptPipe(pipe, out_fd, prefix, passes ? nullptr : limit, std::move(taps), rank);
  } else if (stream->file) {
    FollowedFile followed;
    followed.file = std::move(stream->file);
    followed.worker_end = std::move(stream->worker);
    if (stream->sink == Sink::kShownFile) {
      followed.out_fd = out_fd;
      followed.prefix = prefix;
      followed.rank = rank;
      followed.redraws = passes ? nullptr : limit;
      followed.filtered = filtered_[index];
    }
    follower_->Follow(std::move(followed));
  }
}

// ---- the end ----

void WorkerOutput::EndRound() {
  if (follower_) follower_->EndRound();
}

bool WorkerOutput::AwaitDrained(absl::Duration limit) { return !follower_ || follower_->AwaitDrained(limit); }

uint64_t WorkerOutput::Moved() const { return follower_ ? follower_->Moved() : writer_->feed().Written(); }

void WorkerOutput::GiveUp() {
  if (follower_) follower_->GiveUp();
}

std::string WorkerOutput::AttemptFolder(int local_rank) const {
  return attempt_.empty() ? "" : attempt_ + "/" + std::to_string(local_rank);
}

std::string WorkerOutput::SnapshotPath() const { return attempt_.empty() ? "" : attempt_ + "/stacks.txt"; }

std::string WorkerOutput::FileOf(int local_rank, size_t stream) const {
  const Sink sink = SinkOf(plan_, local_rank, kStreams[stream], /*files=*/!attempt_.empty());
  const bool file = sink == Sink::kFile || sink == Sink::kShownFile;
  return file ? AttemptFolder(local_rank) + "/" + kNames[stream] + ".log" : "";
}

std::array<WorkerOutput::Signs, 2> WorkerOutput::SignsOf(int local_rank) const {
  std::array<Signs, 2> both;
  for (size_t stream = 0; stream < both.size(); ++stream) {
    const bool inherits = SinkOf(plan_, local_rank, kStreams[stream], !attempt_.empty()) == Sink::kInherit;
    both[stream] = {.file = FileOf(local_rank, stream),
                    .bytes = bytes_[static_cast<size_t>(local_rank)][stream],
                    .lines = tails_[static_cast<size_t>(local_rank)][stream],
                    .on_terminal = inherits && isatty(stream == 0 ? STDOUT_FILENO : STDERR_FILENO) == 1};
  }
  return both;
}

}  // namespace muster::host
