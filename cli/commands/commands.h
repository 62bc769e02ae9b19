// The subcommands. A new one needs a row in this table and a file with its run function and its help text.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "cli/options/command_line.h"
#include "cli/options/option_table.h"

namespace muster::cli {

struct Invocation {
  std::string called_as;  // argv[0]
  char** argv = nullptr;  // of the process, for executing it again
  std::vector<std::string> arguments;
  std::string command = "muster run";  // the command as typed, for help and errors
};

// Each takes the words after its name and returns the exit code.
int RunCommand(const Invocation& invocation);
int DeepspeedCommand(const Invocation& invocation);  // for a link named deepspeed
int LocalCommand(const Invocation& invocation);
int LocalNodeCommand(const Invocation& invocation);  // internal: one node of `muster local`
int EnvCommand(const Invocation& invocation);
int HostfileCommand(const Invocation& invocation);
int CoordinatorCommand(const Invocation& invocation);
int HostCommand(const Invocation& invocation);
int HealthCommand(const Invocation& invocation);
int StatusCommand(const Invocation& invocation);
int StacksCommand(const Invocation& invocation);
int EventsCommand(const Invocation& invocation);
int StopCommand(const Invocation& invocation);
int RestartCommand(const Invocation& invocation);
int DrainCommand(const Invocation& invocation);
int SignalCommand(const Invocation& invocation);
int InstallCommand(const Invocation& invocation);
int TokenCommand(const Invocation& invocation);
int VersionCommand(const Invocation& invocation);
int HelpCommand(const Invocation& invocation);

// Help texts, at most 80 columns wide.
std::string MainHelp();  // made from the table
std::string RunHelp();
std::string RunHelp(std::string_view command);  // as "torchrun"
std::string DeepspeedHelp();
std::string LocalHelp();
std::string EnvHelp();
std::string HostfileHelp();
std::string CoordinatorHelp();
std::string HostHelp();
std::string HealthHelp();
std::string StatusHelp();
std::string StacksHelp();
std::string EventsHelp();
std::string StopHelp();
std::string RestartHelp();
std::string DrainHelp();
std::string SignalHelp();
std::string InstallHelp();
std::string TokenHelp();

// RunOptions() and the subcommand's own options.
const std::vector<OptionSpec>& LocalOptions();
const std::vector<OptionSpec>& EnvOptions();
const std::vector<OptionSpec>& HostfileCommandOptions();
const std::vector<OptionSpec>& HostCommandOptions();
const std::vector<OptionSpec>& HealthOptions();
const std::vector<OptionSpec>& StatusOptions();
const std::vector<OptionSpec>& StacksOptions();
const std::vector<OptionSpec>& EventsOptions();
const std::vector<OptionSpec>& StopOptions();
const std::vector<OptionSpec>& RestartOptions();
const std::vector<OptionSpec>& DrainOptions();
const std::vector<OptionSpec>& SignalOptions();

inline constexpr char kLocalCommand[] = "muster local";
inline constexpr char kLocalNodeCommand[] = "local-node";

enum class CommandKind {
  kStarts,    // starts a part of a job; first in the main help
  kShows,     // prints something and starts nothing
  kSteers,    // changes a running job; last in the main help
  kInternal,  // muster calls it itself; in no help, completion or message
};

struct Subcommand {
  const char* name;
  CommandKind kind;
  int (*run)(const Invocation& invocation);
  std::string (*help)();                                  // `muster help NAME`
  const std::vector<OptionSpec>& (*options)() = nullptr;  // for completion; nullptr: it has none
  const char* usage = nullptr;    // in the main help, after "muster NAME"; nullptr: the main help does not list it
  const char* summary = nullptr;  // in the main help
};

// In the order of messages and of shell completion.
inline constexpr Subcommand kSubcommands[] = {
    {.name = "run",
     .kind = CommandKind::kStarts,
     .run = RunCommand,
     .help = RunHelp,
     .options = RunOptions,
     .usage = "[options] [--] SCRIPT [ARGS]",
     .summary =
         "Run one node of a job; the same command on every node. The nodes connect to one of them, the primary, "
         "whose address comes from the platform (Vertex AI, Slurm, Kubernetes and others) or from options. They "
         "agree on ranks, start their workers, and restart all of them when a worker or a node fails."},
    {.name = "local",
     .kind = CommandKind::kStarts,
     .run = LocalCommand,
     .help = LocalHelp,
     .options = LocalOptions,
     .usage = "--nodes N [options] SCRIPT [ARGS]",
     .summary = "Run N nodes on this machine, to try out a multi-node job."},
    {.name = "env",
     .kind = CommandKind::kShows,
     .run = EnvCommand,
     .help = EnvHelp,
     .options = EnvOptions,
     .usage = "[--json] [--check] [options]",
     .summary =
         "Show what muster run would do here: platform, rank, workers, and each setting with its origin; with "
         "--check, look for problems. Starts nothing."},
    {.name = "hostfile",
     .kind = CommandKind::kShows,
     .run = HostfileCommand,
     .help = HostfileHelp,
     .options = HostfileCommandOptions,
     .usage = "[--slots N] [options]",
     .summary = "Print the nodes of the job as a DeepSpeed hostfile: lines of HOST slots=N."},
    {.name = "coordinator",
     .kind = CommandKind::kStarts,
     .run = CoordinatorCommand,
     .help = CoordinatorHelp,
     .options = CoordinatorCommandOptions,
     .usage = "--nnodes N|MIN:MAX [options]",
     .summary = "Run the coordinator by itself instead of in the primary, so that the job survives the loss of "
                "any node."},
    {.name = "host",
     .kind = CommandKind::kStarts,
     .run = HostCommand,
     .help = HostHelp,
     .options = HostCommandOptions,
     .usage = "--socket PATH [--] PROGRAM [ARGS]",
     .summary =
         "Run the workers of a node whose agent is a sidecar in another container: muster run --host-socket "
         "PATH."},
    {.name = "health",
     .kind = CommandKind::kShows,
     .run = HealthCommand,
     .help = HealthHelp,
     .options = HealthOptions,
     .usage = "[--ready]",
     .summary = "Ask the muster of this container for its state: for the probes of Kubernetes and Docker."},
    {.name = "status",
     .kind = CommandKind::kShows,
     .run = StatusCommand,
     .help = StatusHelp,
     .options = StatusOptions,
     .usage = "[--json] [--verbose] [--watch | --wait STATE]",
     .summary = "Say whether a running job is well: what is odd, which nodes it has and which are missing."},
    {.name = "stacks",
     .kind = CommandKind::kShows,
     .run = StacksCommand,
     .help = StacksHelp,
     .options = StacksOptions,
     .usage = "[--ranks RANKS] [--json]",
     .summary = "Say where the workers of a running job stand, those that differ from the others first."},
    {.name = "events",
     .kind = CommandKind::kShows,
     .run = EventsCommand,
     .help = EventsHelp,
     .options = EventsOptions,
     .usage = "[--follow] [--json]",
     .summary = "Say what has happened to a running job: rounds, failures, losses, recoveries."},
    {.name = "stop",
     .kind = CommandKind::kSteers,
     .run = StopCommand,
     .help = StopHelp,
     .options = StopOptions,
     .usage = "[--code N]",
     .summary = "End a running job on all nodes."},
    {.name = "restart",
     .kind = CommandKind::kSteers,
     .run = RestartCommand,
     .help = RestartHelp,
     .options = RestartOptions,
     .usage = "",
     .summary = "Restart the workers of all nodes. Costs no restart."},
    {.name = "drain",
     .kind = CommandKind::kSteers,
     .run = DrainCommand,
     .help = DrainHelp,
     .options = DrainOptions,
     .usage = "NODE",
     .summary = "Have a node leave a running job in order; a spare takes its ranks."},
    {.name = "signal",
     .kind = CommandKind::kSteers,
     .run = SignalCommand,
     .help = SignalHelp,
     .options = SignalOptions,
     .usage = "[--ranks RANKS] SIGNAL",
     .summary = "Send a signal, such as USR1, to the workers of a running job."},
    {.name = "install",
     .kind = CommandKind::kShows,
     .run = InstallCommand,
     .help = InstallHelp,
     .usage = "PATH",
     .summary = "Copy this program to PATH: for the init container of a pod."},
    {.name = "token",
     .kind = CommandKind::kShows,
     .run = TokenCommand,
     .help = TokenHelp,
     .usage = "",
     .summary = "Print a new token, which lets the nodes of a job in and encrypts what they say."},
    {.name = "version",
     .kind = CommandKind::kShows,
     .run = VersionCommand,
     .help = MainHelp,
     .usage = "[--json]",
     .summary = "Print the version; with --json, also the protocol, the compiler and the libraries."},
    {.name = "help", .kind = CommandKind::kShows, .run = HelpCommand, .help = MainHelp},
    {.name = kLocalNodeCommand, .kind = CommandKind::kInternal, .run = LocalNodeCommand, .help = MainHelp},
};

const Subcommand* FindSubcommand(std::string_view name);  // nullptr: none

// The names of all subcommands that are not internal.
std::vector<std::string> SubcommandNames();

// The error for a word that is no subcommand; suggests the likely one.
absl::Status NoSuchCommand(const std::string& name);

// Prints "muster: --nnodes 0: expected ..." to standard error; returns the exit code of the status.
int Complain(const absl::Status& status);

// Prints to standard output; returns 0, or an exit code if not all of it could be written.
int Print(const std::string& text);

}  // namespace muster::cli
