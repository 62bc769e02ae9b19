// `deepspeed ...` in the words of `muster run ...`. Pure: the machine is asked through the probes that are given.
//
// Facts: DeepSpeed's launcher/runner.py and launch.py (commit edaa72212). There is no SSH: with several hosts the
// same line is started on each of them.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cli/options/command_line.h"
#include "cli/options/settings.h"

namespace muster::cli {

struct DeepspeedMachine {
  std::function<std::optional<std::string>(const std::string& path)> read_file;  // nullopt: cannot be read
  std::function<bool(const std::string& host)> is_here;  // a name or address of this machine
  std::function<int()> count_devices;                    // may take seconds
  std::vector<std::string> env_files;                    // .deepspeed_env; those that are there, the last one wins
};

struct DeepspeedLine {
  CommandLine line;                // by the names of RunOptions()
  std::string visible_devices;     // "1,3": CUDA_VISIBLE_DEVICES for all workers; empty: as it is
  Environment variables;           // of .deepspeed_env, for several hosts
  std::vector<std::string> notes;  // what was taken and needs nothing
};

const std::vector<OptionSpec>& DeepspeedOptions();

// args: what follows the program's name. InvalidArgument with one line that names the option.
absl::StatusOr<DeepspeedLine> ReadDeepspeedLine(const std::vector<std::string>& args,
                                                const DeepspeedMachine& machine);

}  // namespace muster::cli
