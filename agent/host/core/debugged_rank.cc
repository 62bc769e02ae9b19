#include "agent/host/core/debugged_rank.h"

#include "absl/strings/str_cat.h"

namespace muster::host {
namespace {

// "; the other 3 workers run until they need rank 0, and then wait for it"
std::string WhatOthersDo(const DebuggedRank& debugged, int64_t world_size) {
  const int64_t others = world_size - 1;
  if (others == 0) return "";
  const std::string rank = absl::StrCat("rank ", debugged.rank);
  return others == 1 ? absl::StrCat("; the other worker runs until it needs ", rank, ", and then waits for it")
                     : absl::StrCat("; the other ", others, " workers run until they need ", rank,
                                    ", and then wait for it");
}

}  // namespace

std::optional<int> LocalRankOf(const DebuggedRank& debugged, const v1::Round& round, int slots) {
  const int64_t local_rank = int64_t{debugged.rank} - round.first_rank();
  if (local_rank < 0 || local_rank >= slots) return std::nullopt;
  return static_cast<int>(local_rank);
}

std::optional<Undebuggable> FindUndebuggable(const DebuggedRank& debugged, const v1::Round& round, int slots,
                                             bool keyboard, const std::string& no_port) {
  const int64_t world = round.world_size();
  if (debugged.rank >= world) {
    return Undebuggable{0,
                        absl::StrCat(debugged.option, ": the job has ", world, world == 1 ? " worker" : " workers",
                                     ": expected a rank, ", world == 1 ? "0" : absl::StrCat("0 to ", world - 1))};
  }
  const std::optional<int> local_rank = LocalRankOf(debugged, round, slots);
  if (!local_rank) return std::nullopt;
  if (debugged.port && !no_port.empty()) {
    return Undebuggable{*local_rank, absl::StrCat(debugged.option, ": port ", *debugged.port, " of 127.0.0.1 on ",
                                                  debugged.hostname, " ", no_port)};
  }
  if (!debugged.port && !keyboard && !debugged.keyboard_is_elsewhere) {
    return Undebuggable{
        *local_rank,
        absl::StrCat(debugged.option,
                     ": pdb needs a terminal as standard input and output, with muster in its foreground, and ",
                     debugged.hostname, " has none; for debugpy give --debug ", debugged.rank, ":PORT")};
  }
  return std::nullopt;
}

std::string DescribeDebugger(const DebuggedRank& debugged, const v1::Round& round, int slots) {
  const std::string waiting = WhatOthersDo(debugged, round.world_size());
  if (!LocalRankOf(debugged, round, slots)) {
    return absl::StrCat("rank ", debugged.rank, ", which runs on another node, starts under ",
                        debugged.port ? "debugpy" : "pdb", waiting);
  }
  if (!debugged.port) {
    return absl::StrCat("rank ", debugged.rank, " starts under pdb and has the keyboard", waiting);
  }
  return absl::StrCat("rank ", debugged.rank, " starts once a debugger attaches to 127.0.0.1:", *debugged.port,
                      " on ", debugged.hostname, " (from elsewhere: ssh -L ", *debugged.port,
                      ":127.0.0.1:", *debugged.port, " ", debugged.hostname, ")", waiting);
}

}  // namespace muster::host
