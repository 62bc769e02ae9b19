#include "base/stacks/snapshot_message.h"

#include <algorithm>
#include <string>

#include "base/text/text.h"

namespace muster {

void FillMessage(const RankSnapshot& rank, size_t most_frames, v1::RankSnapshot* message) {
  message->set_pid(rank.pid);
  message->set_ended(rank.ended);
  message->set_program(CutUtf8(rank.program, kMostText));
  message->set_state(std::string(1, rank.state));
  message->set_waits_in(CutUtf8(rank.waits_in, kMostText));
  message->set_threads(rank.threads);
  message->set_missing(CutUtf8(rank.missing, kMostText));
  message->set_idle_ms(absl::ToInt64Milliseconds(rank.idle));
  message->set_silent_so_far(rank.silent_so_far);
  if (!rank.last_output.empty()) message->set_last_output(CutUtf8Front(rank.last_output, kMostOutput));
  if (rank.busy_percent) message->set_busy_percent(*rank.busy_percent);
  const PythonThread* const main = MainThread(rank);
  if (main == nullptr) return;
  for (size_t i = 0; i < std::min(main->frames.size(), most_frames); ++i) {
    v1::StackFrame* const frame = message->add_main_thread();
    frame->set_function(CutUtf8(main->frames[i].function, kMostText));
    frame->set_file(CutUtf8Front(main->frames[i].file, kMostText));  // the end of a path says more
    frame->set_line(main->frames[i].line);
  }
}

v1::NodeSnapshot ToMessage(uint64_t number, int first_rank, const std::vector<RankSnapshot>& ranks) {
  v1::NodeSnapshot snapshot;
  for (size_t frames = kMostFrames; frames > 0; frames /= 2) {
    snapshot.Clear();
    snapshot.set_number(number);
    for (const RankSnapshot& rank : ranks) {
      if (static_cast<size_t>(snapshot.ranks_size()) == kMostWorkers) break;
      v1::RankSnapshot* const message = snapshot.add_ranks();
      message->set_local_rank(rank.rank - first_rank);
      FillMessage(rank, frames, message);
    }
    if (snapshot.ByteSizeLong() <= kMostSnapshotBytes) return snapshot;
  }
  while (snapshot.ByteSizeLong() > kMostSnapshotBytes) snapshot.mutable_ranks()->RemoveLast();
  return snapshot;
}

std::vector<RankSnapshot> FromMessage(const v1::NodeSnapshot& snapshot, int first_rank) {
  std::vector<RankSnapshot> ranks;
  for (const v1::RankSnapshot& message : snapshot.ranks()) {
    RankSnapshot& rank = ranks.emplace_back();
    rank.rank = first_rank + message.local_rank();
    rank.pid = message.pid();
    rank.ended = message.ended();
    rank.program = message.program();
    rank.state = message.state().empty() ? '?' : message.state()[0];
    rank.waits_in = message.waits_in();
    rank.threads = message.threads();
    rank.missing = message.missing();
    rank.idle = absl::Milliseconds(message.idle_ms());
    rank.silent_so_far = message.silent_so_far();
    rank.last_output = message.last_output();
    if (message.has_busy_percent()) rank.busy_percent = message.busy_percent();
    if (message.main_thread().empty()) continue;
    PythonThread& main = rank.python.emplace_back();
    main.name = "MainThread";
    main.is_main = true;
    for (const v1::StackFrame& frame : message.main_thread()) {
      main.frames.push_back({frame.function(), frame.file(), frame.line()});
    }
  }
  return ranks;
}

}  // namespace muster
