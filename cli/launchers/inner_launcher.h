// Other launchers in the place of the script: `muster run torchrun ...`, `muster run accelerate launch ...`.
// muster does their work, so that no launcher starts another one in each of its workers. Pure.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "cli/options/command_line.h"

namespace muster::cli {

enum class LauncherKind {
  kTorchrun,
  kTorchLaunch,  // torch.distributed.launch: passes --local-rank to each worker without --use-env
  kDeepspeed,
  kPython,  // runs in its own Python until it calls torchrun's run()
};

struct InnerLauncher {
  LauncherKind kind = LauncherKind::kTorchrun;
  std::string interpreter;                       // the word in front of -m; empty: none was given
  std::vector<std::string> interpreter_options;  // between that and -m
  std::string program;                           // as typed: a file, or with is_module a module
  bool is_module = false;
  std::vector<std::string> words;  // its command line, after its own name
};

// The launcher that stands in the place of the script, by itself, after -m or --no-python, or after `python -m`;
// nullopt: none, or under the name torchrun, which starts a job in each worker as well. is_own: the script is a
// program of the user that has a launcher's name. InvalidArgument: another command of such a launcher.
absl::StatusOr<std::optional<InnerLauncher>> FindLauncher(const CommandLine& line, bool is_own);

bool HasNameOfALauncher(std::string_view program);

// Whether a file that has a launcher's name, and begins so, is something else: a script that does not name the
// launcher's module. (A binary is taken for the launcher: muster's own link.)
bool IsNoLauncher(std::string_view beginning);

// What to call it in messages: "accelerate launch". And the module that it is.
std::string NameOf(const InnerLauncher& launcher);
std::string ModuleOf(const InnerLauncher& launcher);

// The options of a line whose script is a launcher, without those that said how to start it.
std::map<std::string, std::string> OptionsInFrontOf(const CommandLine& line);

// "--name=value", or "--name" of a switch.
std::string OptionWord(const std::string& option, const std::string& value);

struct JoinedLine {
  CommandLine line;
  std::vector<std::string> notes;  // info lines
};
// The options in front take precedence over the launcher's own, also over those that answer the same question by
// another name, such as --rdzv-endpoint and --master-addr; a note for each that this changes.
JoinedLine Join(const std::map<std::string, std::string>& in_front, JoinedLine own);

// The own line of kTorchrun or kTorchLaunch, read as under the name torchrun. InvalidArgument: as
// ParseCommandLine.
absl::StatusOr<CommandLine> ReadTorchLine(const InnerLauncher& launcher);

// The interpreter of a file that begins so: "#!/venv/bin/python3 -E" or "#!/usr/bin/env python3"; empty: it names
// none.
std::string InterpreterNamedIn(std::string_view beginning);

// The line of `command` ("muster run") to type instead if the script is an interpreter, or muster; nullopt: it is
// neither. Call it only without --no-python and --module. is_file: a file of that name exists, so it is taken for
// a script.
std::optional<std::string> LineInstead(const CommandLine& line, bool is_file, std::string_view command);

// The line with --no-python for a shell or a shell script, `bash -c ...` or `x.sh`, which Python cannot run;
// otherwise as above.
std::optional<std::string> ShellLineInstead(const CommandLine& line, bool is_file, std::string_view command);

}  // namespace muster::cli
