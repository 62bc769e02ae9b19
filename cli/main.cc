// muster's main: selects the part of muster that this process is. The two internal parts come first, since they
// start most often and must start fast.
#include <fcntl.h>
#include <google/protobuf/stubs/logging.h>
#include <sys/stat.h>

#include <climits>
#include <cstdio>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "agent/host/process/exec_stage.h"
#include "agent/process/agent_process.h"
#include "base/proc/process_setup.h"
#include "cli/commands/commands.h"
#include "cli/options/exit_codes.h"
#include "cli/options/values.h"
#include "cli/plan/machine.h"
#include "cli/plan/parts.h"

namespace muster::cli {
namespace {

// What the process that starts an agent tells it. -1: not told.
struct AgentWords {
  int fd = -1;        // the link to the host
  int host_end = -1;  // shows the end of a host in another container
  int sidecar = -1;   // pid of the process that the agent must not outlive
  int tokens = -1;    // a socket with the sidecar's tokens
  int ipv4 = -1;      // sockets that the host keeps, for the coordinator's port
  int ipv6 = -1;
};

// Nothing for any other command line.
std::optional<AgentWords> ReadAgentWords(const std::vector<std::string>& words) {
  AgentWords read;
  for (size_t i = 0; i < words.size(); i += 2) {
    int* const target = words[i] == "--fd"         ? &read.fd
                        : words[i] == "--host-end" ? &read.host_end
                        : words[i] == "--sidecar"  ? &read.sidecar
                        : words[i] == "--tokens"   ? &read.tokens
                        : words[i] == "--ipv4"     ? &read.ipv4
                        : words[i] == "--ipv6"     ? &read.ipv6
                                                   : nullptr;
    if (target == nullptr || i + 1 == words.size()) return std::nullopt;
    *target = ParseInteger(words[i + 1], {0, INT_MAX}).value_or(-1);
    if (*target < 0) return std::nullopt;
  }
  const auto is_open = [](int fd) { return fcntl(fd, F_GETFD) >= 0; };
  struct stat link;
  const bool linked = read.fd >= 0 && fstat(read.fd, &link) == 0 && S_ISSOCK(link.st_mode);
  if (!linked || (read.host_end >= 0 && !is_open(read.host_end))) return std::nullopt;
  for (const int fd : {read.tokens, read.ipv4, read.ipv6}) {
    if (fd >= 0 && !is_open(fd)) return std::nullopt;
  }
  return read;
}

// `muster agent --fd N`, with the sockets of the host or the rest of a sidecar, which start it.
int AgentCommand(int argc, char** argv) {
  const std::optional<AgentWords> words = ReadAgentWords({argv + 2, argv + argc});
  if (!words) return Complain(absl::InvalidArgumentError("agent is an internal command; see muster --help"));
  PrepareProcess();
  if (words->sidecar >= 0) EndWithParent(words->sidecar);
  return agent::RunAgent({.fd = words->fd,
                          .host_end_fd = words->host_end,
                          .tokens_fd = words->tokens,
                          .by_sidecar = words->sidecar >= 0,
                          .sockets = {.ipv4 = words->ipv4, .ipv6 = words->ipv6}});
}

// Whether muster was called by a link of this name, such as torchrun or deepspeed.
bool IsCalled(const char* called_as, std::string_view name) {
  const std::string_view path = called_as;
  return path == name || (path.ends_with(name) && path[path.size() - name.size() - 1] == '/');
}

int Dispatch(int argc, char** argv) {
  // Other launchers have no such option, but people ask the program that they find by this name.
  const bool by_other_name = IsCalled(argv[0], kTorchrun) || IsCalled(argv[0], "deepspeed");
  if (by_other_name && argc == 2 && std::string_view(argv[1]) == "--version")
    return VersionCommand({argv[0], argv, {}});
  if (IsCalled(argv[0], kTorchrun)) return RunCommand({argv[0], argv, {argv + 1, argv + argc}, kTorchrun});
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
  const discovery::ContainerConventions* const container = ContainerHere(ReadEnvironment(), machine::ProbeFile);
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
  // Protobuf writes to standard error by itself, a line for each message of a stranger that is no UTF-8. What
  // cannot be parsed is an error of the caller, which says so.
  google::protobuf::SetLogHandler(nullptr);
  if (argc > 1 && std::strcmp(argv[1], "agent") == 0) return muster::cli::AgentCommand(argc, argv);
  return muster::cli::Dispatch(argc, argv);
}
