// Translates a `deepspeed` command line into one of `muster run`. Pure: reads the machine through functions.
//
// Source: DeepSpeed's launcher/runner.py and launch.py (commit edaa72212). There is no SSH: with several hosts the
// same command is run on each of them.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "agent/platform/discovery/cluster_view.h"
#include "cli/options/command_line.h"
#include "cli/options/settings.h"

namespace muster::cli {

struct DeepspeedMachine {
  discovery::FileReader read_file;
  std::string hostname;
  std::function<bool(const std::string& host)> is_here;  // whether it is a name or address of this machine
  std::function<int()> count_devices;                    // those that are visible; may take seconds
  std::function<int()> count_all_devices;                // without CUDA_VISIBLE_DEVICES; may take seconds
  std::vector<std::string> env_files;  // paths of .deepspeed_env; of those that exist the last one wins
};

struct DeepspeedLine {
  CommandLine line;                // with the names of RunOptions()
  std::string visible_devices;     // "1,3": CUDA_VISIBLE_DEVICES of all workers; empty: unchanged
  Environment variables;           // of .deepspeed_env; only with several hosts
  std::vector<std::string> notes;  // info lines, e.g. on options without effect
};

const std::vector<OptionSpec>& DeepspeedOptions();

// args: the words after the program's name. InvalidArgument with one line that names the option;
// FailedPrecondition: a file cannot be used. in_front: options of `muster run` in front of deepspeed; those that
// it has, too, take the place of its own.
absl::StatusOr<DeepspeedLine> ReadDeepspeedLine(const std::vector<std::string>& args,
                                                const DeepspeedMachine& machine,
                                                const std::map<std::string, std::string>& in_front = {});

}  // namespace muster::cli
