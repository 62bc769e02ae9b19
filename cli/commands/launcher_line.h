// The lines of other launchers, by their name or in the place of muster's script, as lines of muster.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cli/launchers/inner_launcher.h"
#include "cli/options/deepspeed.h"
#include "cli/plan/run_plan.h"

namespace muster::cli {

// Whether the script is a file of this directory, whatever program has the same name.
bool IsFileHere(const std::string& script);

// The launcher in the place of the line's script, if it is not a program of the user that has such a name. Errors:
// as FindLauncher. Blocking: may read the program's file.
absl::StatusOr<std::optional<InnerLauncher>> LauncherIn(const CommandLine& line);

// InvalidArgument: there is one, where no launcher can be.
absl::Status CheckNoLauncherIn(const CommandLine& line);

// The line of the deepspeed launcher; its variables are set in the environment. Errors: as ReadDeepspeedLine.
absl::StatusOr<JoinedLine> TakeDeepspeedLine(const std::vector<std::string>& words, Environment* environment,
                                             const std::map<std::string, std::string>& in_front = {});

// The line of a launcher in the place of the script, with the options in front of it. Errors: as those of the
// launcher's kind; InvalidArgument for kPython, whose line is known only once it runs.
absl::StatusOr<JoinedLine> TakeOver(const InnerLauncher& launcher, const CommandLine& line,
                                    Environment* environment);

// A Python launcher in the place of the script becomes this process, once the options in front of it have been
// read; returns the exit code of an error.
int BecomePythonLauncher(const InnerLauncher& launcher, const CommandLine& line, const std::string& called_as);

}  // namespace muster::cli
