// muster's main: selects the part of muster that this process is. The two internal parts come first, since they
// start most often and must start fast.
#include <fcntl.h>
#include <sys/stat.h>

#include <climits>
#include <cstdio>
#include <cstring>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "agent/agent_process.h"
#include "agent/host/process/exec_stage.h"
#include "base/proc/process_setup.h"
#include "cli/commands/commands.h"
#include "cli/options/exit_codes.h"
#include "cli/options/values.h"
#include "cli/plan/container.h"
#include "cli/plan/machine.h"

namespace muster::cli {
namespace {

// The open descriptor whose number follows `name` at this place of the command line; -1: there is none.
int DescriptorAt(int argc, char** argv, int place, const char* name) {
  if (argc < place + 2 || std::strcmp(argv[place], name) != 0) return -1;
  const int fd = ParseInteger(argv[place + 1], {0, INT_MAX}).value_or(-1);
  return fd >= 0 && fcntl(fd, F_GETFD) >= 0 ? fd : -1;
}

// `muster agent --fd N [--host-end N]`, started by the host or by a sidecar.
int AgentCommand(int argc, char** argv) {
  constexpr int kWordsOfOne = 4, kWordsOfBoth = 6;
  const int fd = DescriptorAt(argc, argv, 2, "--fd"),
            host_end = DescriptorAt(argc, argv, kWordsOfOne, "--host-end");
  struct stat link;
  const bool good = fd >= 0 && fstat(fd, &link) == 0 && S_ISSOCK(link.st_mode) &&
                    argc == (host_end < 0 ? kWordsOfOne : kWordsOfBoth);
  if (!good) return Complain(absl::InvalidArgumentError("agent is an internal command; see muster --help"));
  PrepareProcess();
  return agent::RunAgent(fd, host_end);
}

// Whether muster was called by a link of this name, such as torchrun or deepspeed.
bool IsCalled(const char* called_as, std::string_view name) {
  const std::string_view path = called_as;
  return path == name || (path.ends_with(name) && path[path.size() - name.size() - 1] == '/');
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
  if (const Subcommand* const command = FindSubcommand(name)) return command->run(invocation);
  if (name == "--version") return VersionCommand(invocation);
  if (name == "--help" || name == "-h") return Print(MainHelp());
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
