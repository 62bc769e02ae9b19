// muster's main: selects the part of muster that this process is. The two internal parts come first, since they
// start most often and must start fast.
#include <sys/stat.h>

#include <algorithm>
#include <cctype>
#include <climits>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "agent/agent_process.h"
#include "agent/host/process/exec_stage.h"
#include "base/problem.h"
#include "base/proc/process_setup.h"
#include "base/status_macros.h"
#include "cli/commands/commands.h"
#include "cli/commands/help.h"
#include "cli/options/command_names.h"
#include "cli/options/exit_codes.h"
#include "cli/options/nearest.h"
#include "cli/options/values.h"
#include "cli/plan/container.h"
#include "cli/plan/machine.h"
#include "cli/plan/version.h"

namespace muster::cli {

// Replaces control characters, so that the message is one line.
int Complain(const absl::Status& status) {
  std::string line(AsStd(status.message()));
  std::replace_if(
      line.begin(), line.end(), [](unsigned char c) { return std::iscntrl(c) != 0; }, '?');
  std::fprintf(stderr, "muster: %s\n", line.c_str());
  return ExitCodeOf(status);
}

int Print(const std::string& text) {
  const bool written = std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0;
  return written ? 0 : Complain(absl::InternalError("cannot write to standard output"));
}

int VersionCommand(const Invocation& invocation) {
  if (!invocation.arguments.empty()) {
    if (invocation.arguments[0] == "--help" || invocation.arguments[0] == "-h") return Print(MainHelp());
    return Complain(absl::InvalidArgumentError(
        absl::StrCat(Shown(invocation.arguments[0]), ": muster version takes no arguments")));
  }
  return Print(absl::StrCat("muster ", Version(), "\n"));
}

namespace {

// `muster agent --fd N`, started by the host.
int AgentCommand(int argc, char** argv) {
  constexpr int kArguments = 4;
  const absl::StatusOr<int> fd = ParseInteger(argc == kArguments ? argv[kArguments - 1] : "", 0, INT_MAX);
  struct stat link;
  if (!fd.ok() || std::strcmp(argv[2], "--fd") != 0 || fstat(*fd, &link) != 0 || !S_ISSOCK(link.st_mode)) {
    return Complain(absl::InvalidArgumentError("agent is an internal command; see muster --help"));
  }
  PrepareProcess();
  return agent::RunAgent(*fd);
}

// Users of torchrun may type the options or the script without `run`.
absl::Status NoSuchCommand(const std::string& name) {
  const std::vector<std::string> known(std::begin(kCommands), std::end(kCommands));
  std::string meant = NearestWord(name, known);
  if (name.starts_with('-') || name.ends_with(".py")) meant = "run " + Shown(name);
  if (name == "-V") meant = "--version";
  return absl::InvalidArgumentError(absl::StrCat(
      Shown(name), ": no such command; the commands are ", absl::StrJoin(known.begin(), known.end() - 1, ", "),
      " and ", known.back(), meant.empty() ? "" : "; did you mean muster ", meant, meant.empty() ? "" : "?"));
}

// Whether muster was called by a link of this name, such as torchrun or deepspeed.
bool IsCalled(const char* called_as, std::string_view name) {
  const std::string_view path = called_as;
  return path == name || (path.ends_with(name) && path[path.size() - name.size() - 1] == '/');
}

// `muster help run` is `muster run --help`.
int HelpCommand(const Invocation& invocation) {
  if (invocation.arguments.empty()) return Print(MainHelp());
  const std::string& about = invocation.arguments[0];
  if (about == "--help" || about == "-h") return Print(MainHelp());
  if (invocation.arguments.size() > 1) {
    return Complain(absl::InvalidArgumentError(
        absl::StrCat(Shown(invocation.arguments[1]), ": muster help takes one command")));
  }
  if (about == "run") return Print(RunHelp());
  if (about == "local") return Print(LocalHelp());
  if (about == "env") return Print(EnvHelp());
  if (about == "hostfile") return Print(HostfileHelp());
  if (about == "coordinator") return Print(CoordinatorHelp());
  return about == "version" || about == "help" ? Print(MainHelp()) : Complain(NoSuchCommand(about));
}

int Dispatch(int argc, char** argv) {
  if (IsCalled(argv[0], "torchrun")) return RunCommand({argv[0], argv, {argv + 1, argv + argc}, "torchrun"});
  if (IsCalled(argv[0], "deepspeed"))
    return DeepspeedCommand({argv[0], argv, {argv + 1, argv + argc}, "deepspeed"});
  const std::string name = argc > 1 ? argv[1] : "";
  if (name.empty()) {
    std::fputs(MainHelp().c_str(), stderr);
    return kExitUsage;
  }
  const Invocation invocation{argv[0], argv, {argv + 2, argv + argc}};
  if (name == "run") return RunCommand(invocation);
  if (name == "local") return LocalCommand(invocation);
  if (name == kLocalNodeCommand) return LocalNodeCommand(invocation);
  if (name == "env") return EnvCommand(invocation);
  if (name == "hostfile") return HostfileCommand(invocation);
  if (name == "coordinator") return CoordinatorCommand(invocation);
  if (name == "version" || name == "--version") return VersionCommand(invocation);
  if (name == "--help" || name == "-h") return Print(MainHelp());
  if (name == "help") return HelpCommand(invocation);
  // With ENTRYPOINT ["muster"] the word that the platform appends, such as `train`, is the whole command line.
  const discovery::ContainerConventions* const container = ContainerHere(ReadEnvironment());
  if (container != nullptr && name == container->word) {
    return RunCommand({argv[0], argv, {argv + 1, argv + argc}});
  }
  return Complain(NoSuchCommand(name));
}

}  // namespace
}  // namespace muster::cli

int main(int argc, char** argv) {
  if (argc > 1 && std::strcmp(argv[1], muster::host::kExecStageCommand) == 0) {
    return muster::host::ExecStageMain(argc, argv);
  }
  if (argc > 1 && std::strcmp(argv[1], "agent") == 0) return muster::cli::AgentCommand(argc, argv);
  return muster::cli::Dispatch(argc, argv);
}
