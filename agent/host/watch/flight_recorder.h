// NCCL's flight recorders: the last collectives of each rank, which torch's process group of NCCL keeps in memory
// (torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp, FlightRecorder.hpp; the names are those of torch 2.8 and
// later). Something written into a rank's named pipe has it write them into a file, and training goes on. With
// torch 2.11 on an H100 the file was there after 4.5 to 6 s. It is a pickle, so it is only kept: `python -m
// torch.distributed.flight_recorder.fr_trace FOLDER` compares those of all ranks.
//
// Everything here lives on the loop thread.
#pragma once

#include <cstdint>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "agent/host/core/worker_environment.h"
#include "base/core/time.h"
#include "base/io/temporary_folder.h"

namespace muster::host {

inline constexpr absl::Duration kRecorderLimit = absl::Milliseconds(7'500);  // from the question to the whole file
// A file that does not grow meanwhile is whole.
inline constexpr absl::Duration kRecorderPoll = absl::Milliseconds(500);
inline constexpr int kRecorderEntries = 2000;  // torch's own default from 2.11 on

struct RecorderPaths {
  std::string pipe;  // empty: none
  std::string file;
};

// Where the recorders of this node's ranks are, round by round.
class FlightRecorders {
 public:
  FlightRecorders() = default;
  ~FlightRecorders();
  FlightRecorders(const FlightRecorders&) = delete;
  FlightRecorders& operator=(const FlightRecorders&) = delete;

  // folder: where the files of this round are kept; empty: nothing is recorded. Blocks for at most `limit`.
  void BeginRound(const std::string& folder, uint32_t restart_count, absl::Duration limit);
  // For the workers of the round, unless they have a pipe of the user's. Names of ranks are appended by torch.
  EnvironmentMap Variables() const;
  RecorderPaths PathsOf(int rank) const;

 private:
  std::shared_ptr<ScratchFolder> pipes_;  // a file system on a network may have no pipes; nullptr: none
  bool gave_up_ = false;
  std::string pipe_stem_;  // empty: nothing is recorded
  std::string file_stem_;
};

// One question to recorders.
class RecorderDump {
 public:
  // Asks, and looks for the files, on threads of their own.
  RecorderDump(BootTime now, std::vector<RecorderPaths> recorders);

  void Poll(BootTime now);
  bool over() const { return over_; }
  bool Has(size_t index) const { return recorders_[index].whole; }  // the whole file, once it is over

 private:
  struct Recorder {
    std::string file;
    int64_t size = 0;  // of the file, at the last look
    bool whole = false;
  };
  using Sizes = std::vector<int64_t>;

  void Take(const Sizes& sizes);

  std::vector<Recorder> recorders_;
  BootTime asked_at_;
  BootTime next_look_;
  std::optional<std::future<Sizes>> look_;
  bool over_ = false;
};

}  // namespace muster::host
