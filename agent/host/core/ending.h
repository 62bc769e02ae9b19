// How a child process ended, with what is known about the cause. Data.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/time/time.h"
#include "base/core/time.h"

namespace muster::host {

inline constexpr size_t kMaxErrorText = 4096;  // bytes of each text of a failure that is sent

// How a worker or the preflight ended: its wait status, and what is known about the cause.
struct Ending {
  bool by_signal = false;
  int number = 0;  // exit code or signal
  bool core_dumped = false;
  std::optional<BootTime> at = {};  // when the host saw it; nullopt: when it is reported
  bool oom_killed = false;
  // Explanation by the worker or by muster; UTF-8, at most kMaxErrorText bytes each.
  std::string error_text = "";
  std::string callstack = "";
  std::string error_file = "";                 // path of the worker's error file; empty: none, or it is not kept
  std::optional<int64_t> failed_at_s = {};     // as the worker reported it: wall clock, truncated to a second
  std::optional<absl::Time> reported_at = {};  // modification time of its error file, by the wall clock
  std::string last_words = "";                 // the last lines of its standard error; empty: muster has none
  std::optional<absl::Time> spoke_at = {};     // when it wrote them, by the wall clock; nullopt: not known
  // The wall clock when the end is reported: it may have been set since OnWallClock. nullopt: as before.
  std::optional<absl::Time> wall = {};
  bool without_input = false;     // its standard input was /dev/null
  bool output_is_unseen = false;  // its standard error leads past muster, to a terminal
  // A worker that had created its done file (MUSTER_DONE_FILE): what went wrong afterwards is no failure.
  bool done = false;
  // muster has ended it because the job hung (--hang-timeout). It has failed then, however it ended.
  enum class Hung {
    kNo,
    kSuspect,  // it alone stood where no other rank did
    kForAll,   // no single rank was the reason: its node is not to blame
  } hung = Hung::kNo;
  // Rank 0's: the process, none of ours, that listens on the round's master port; empty: none, or not looked for.
  std::string port_taken_by = "";
  // Other processes of its session were spared until the grace period ends: OnRestEnded or a sweep follows.
  bool rest_lives = false;

  bool ok() const { return !by_signal && number == 0; }
  int ExitCode() const { return by_signal ? 128 + number : number; }  // as a shell says it
};

// "exit code 3", "killed by signal 9 (SIGKILL)"
std::string DescribeEnding(const Ending& ending);

}  // namespace muster::host
