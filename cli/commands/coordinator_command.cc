// `muster coordinator`: reads the job's settings from options and MUSTER_ variables and runs the coordinator.
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "agent/host/core/report.h"
#include "agent/host/host_process.h"
#include "base/console/log.h"
#include "base/core/status_macros.h"
#include "base/proc/process_setup.h"
#include "cli/commands/commands.h"
#include "cli/commands/help.h"
#include "cli/options/log_level.h"
#include "cli/options/option_table.h"
#include "cli/plan/machine.h"
#include "cli/plan/make_plan.h"
#include "cli/plan/token.h"
#include "rendezvous/coordinator_process.h"
#include "rendezvous/transport/credential_files.h"

namespace muster::cli {
namespace {

constexpr char kListen[] = "listen";
constexpr char kListenVariable[] = "MUSTER_LISTEN";

// Removes the variables of options that the coordinator does not have: in a pod they may describe a node.
Environment WithoutNodeVariables(Environment environment) {
  for (const OptionSpec& spec : RunOptions()) {
    if (FindOption(CoordinatorCommandOptions(), spec.name) != nullptr) continue;
    for (const char* prefix : {"MUSTER_", "PET_"}) environment.erase(VariableName(prefix, spec.name));
  }
  return environment;
}

bool IsSet(const Environment& environment, const std::string& name) {
  const auto found = environment.find(name);
  return found != environment.end() && !found->second.empty();
}

// Plans a node that uses the address where the coordinator listens, to get the job's settings from that plan.
absl::StatusOr<RunPlan> PlanCoordinator(CommandLine line, const Environment& environment) {
  const auto listen = line.given.find(kListen);
  const bool given = listen != line.given.end();
  const bool by_variable = !given && IsSet(environment, kListenVariable);
  const std::string fallback(FindOption(CoordinatorCommandOptions(), kListen)->reader.fallback);
  Setting<std::string> where{fallback, Origin::kDefault, "--listen", fallback};
  if (given) where = {listen->second, Origin::kFlag, "--listen", listen->second};
  if (by_variable) {
    const std::string& text = environment.at(kListenVariable);
    where = {text, Origin::kMusterVariable, kListenVariable, text};
  }
  const absl::StatusOr<HostPort> address = ParseListen(where.value);
  if (!address.ok()) return WrongValue(where, std::string(AsStd(address.status().message())));
  line.given.erase(kListen);
  if (line.given.count("nnodes") == 0 && !IsSet(environment, "MUSTER_NNODES") &&
      !IsSet(environment, "PET_NNODES")) {
    return absl::InvalidArgumentError("--nnodes is missing: expected the number of nodes, N or MIN:MAX");
  }
  const bool is_ipv6 = address->host.find(':') != std::string::npos;
  line.given["coordinator"] = is_ipv6 ? absl::StrCat("[", address->host, "]") : address->host;  // without the port
  ASSIGN_OR_RETURN(RunPlan plan, Plan(line, environment, ReadMachine(environment)));
  plan.host.config.mutable_primary()->set_port(*address->port);
  return plan;
}

}  // namespace

std::string CoordinatorHelp() {
  std::string out = R"(Usage: muster coordinator --nnodes N|MIN:MAX [options]

Runs the coordinator of a job by itself, so that the job survives the loss of
any node. It decides when the nodes start their workers; each such start is a
round. The nodes run: muster run --coordinator HOST:PORT --nnodes ... SCRIPT

The coordinator stores nothing on disk. When it is killed and restarted with the
same options, it learns the state of the job from the nodes. If that takes less
than two thirds of the lease, the workers keep running; else the group restarts
once the coordinator is back. A --lease of 2m gives a cluster the time to
reschedule it. Its exit code is the job's. Set the restart policy here, not on
the nodes; only --progress-file is set on the nodes, which see that file.

SIGTERM, SIGHUP (its terminal closes) and SIGQUIT end it with exit code 75, and
Ctrl-C with 130, unless they were ignored when it started, as by nohup. It makes
no more rounds then, but serves nodes that leave until they have left, and nodes
that run for 20 s. A second signal ends it at once.

Without --node-rank on the nodes, the first round waits for lease and margin:
nodes that cannot be reached may still be running an earlier round.

  muster coordinator --nnodes 2:4 --rdzv-id job1 --listen 29400 --lease 2m
  muster run --coordinator c.example:29400 --nnodes 2:4 --rdzv-id job1 train.py
)";
  AppendTimeSyntax(&out);
  const auto& table = CoordinatorCommandOptions();
  AppendGroup(table, Group::kOther, "Address", &out);
  AppendGroup(table, Group::kMembership, kMembershipTitle, &out);
  AppendGroup(table, Group::kRestarts, kRestartsTitle, &out);
  AppendGroup(table, Group::kTimes, kTimesTitle, &out);
  AppendGroup(table, Group::kOutput, "Output", &out);
  out += R"(
Each option can also be set by a variable: --nnodes by MUSTER_NNODES. The
variables MUSTER_TOKEN and MUSTER_LOG_LEVEL apply as for muster run.
)";
  return out;
}

int CoordinatorCommand(const Invocation& invocation) {
  const auto line = ParseCommandLine(CoordinatorCommandOptions(), invocation.arguments, "muster coordinator");
  if (!line.ok()) return Complain(line.status());
  if (line->help) return Print(CoordinatorHelp());
  if (!line->script.empty()) {
    return Complain(absl::InvalidArgumentError(
        absl::StrCat(line->script, ": muster coordinator takes no script; give it to muster run on the nodes")));
  }
  const Environment environment = WithoutNodeVariables(TakeEnvironment());
  const absl::StatusOr<RunPlan> plan = PlanCoordinator(*line, environment);
  if (!plan.ok()) return Complain(plan.status());
  const absl::StatusOr<Severity> level = LogLevel(environment);
  if (!level.ok()) return Complain(level.status());
  if (plan->host.config.has_certificates()) {
    const absl::Status usable =
        rendezvous::CheckCertificates(plan->host.config, rendezvous::TlsRole::kPrimary, absl::Now());
    if (!usable.ok()) return Complain(usable);
  }
  for (const std::string& warning : plan->credential_warnings) Log(Severity::kWarning, "coordinator", warning);
  if (HasCredentials(plan->host.config)) KeepMemoryPrivate();
  const Inherited inherited = PrepareProcess();
  const auto report_of = [&config = plan->host.config](const v1::Verdict& verdict) {
    host::JobEnd end = host::AboutThisNode(config, absl::StrCat("run ", config.run_id()));
    end.verdict = verdict;
    return host::FailureReport(end);
  };
  const rendezvous::CoordinatorEnd end =
      rendezvous::RunCoordinator(plan->host.config, *level, inherited.ignored, report_of);
  std::fflush(nullptr);
  if (end.signal != 0) EndBySignal(end.signal);
  return end.exit_code;
}

}  // namespace muster::cli
