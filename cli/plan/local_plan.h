// `muster local`: the arguments and environment of each of its nodes. Pure.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "agent/host/core/output_plan.h"
#include "agent/platform/machine/accelerators.h"
#include "cli/options/command_line.h"
#include "cli/options/settings.h"

namespace muster::cli {

inline constexpr Bounds<int> kLocalNodeCounts = {1, 200};  // 127.0.0.1 to 127.0.0.200

// The prefix that a node's host puts before each line of a worker: the rank between two separators.
inline constexpr char kRankBegin = '\x1e';
inline constexpr char kRankEnd = '\x1f';

struct LocalFacts {
  uint16_t port = 0;  // a free port of 127.0.0.1
  std::string run_id;
  machine::Accelerators accelerators;
  host::Streams terminals = host::Streams::kNone;  // streams of muster local that are terminals
  bool keyboard = false;                           // its standard input is a terminal, with it in the foreground
  std::vector<host::StreamFile> streams = {};      // the files behind its streams
  bool first_process = false;                      // as Machine::first_process
};

struct LocalNode {
  std::vector<std::string> arguments;  // of `muster run`
  Environment environment;
};

// InvalidArgument: --nodes is missing or wrong, or a membership option is given.
absl::StatusOr<int> LocalNodeCount(const CommandLine& command_line);

std::vector<LocalNode> PlanLocal(int nodes, const CommandLine& command_line, const Environment& environment,
                                 const LocalFacts& facts);

}  // namespace muster::cli
