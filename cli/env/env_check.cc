#include "cli/env/env_check.h"

#include <linux/capability.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "agent/host/core/output_plan.h"
#include "base/core/status_macros.h"
#include "base/stacks/py_spy.h"
#include "base/text/text.h"
#include "base/wire/ids.h"
#include "cli/options/exit_codes.h"
#include "cli/plan/make_plan.h"
#include "rendezvous/transport/serving.h"

namespace muster::cli {
namespace {

using Kind = Finding::Kind;

constexpr char kOwnCgroup[] = "/proc/self/cgroup";
constexpr char kOwnStatus[] = "/proc/self/status";
constexpr char kCapabilities[] = "\nCapEff:";
constexpr char kTraceScope[] = "/proc/sys/kernel/yama/ptrace_scope";
constexpr char kStacks[] = "stacks of a hang";
constexpr size_t kMaxProcFileBytes = 64 * 1024;
constexpr char kCgroupRoot[] = "/sys/fs/cgroup";
constexpr int kExitProblemFound = 1;
constexpr size_t kMaxAddressesShown = 4;
constexpr char kForwarded[] =
    "unless that address is forwarded to this machine (NAT, a load balancer), no other node can reach this one: "
    "give the address of node 0, or the right --node-rank if this is not node 0";

class Checker {
 public:
  Checker(const EnvReport& report, const machine::ProgramCheck& program, const CheckProbe& probe)
      : report_(report), plan_(report.plan), program_(program), probe_(probe) {}

  std::vector<Finding> Run() {
    Membership();
    ProtectionOfJob();
    if (!plan_.host.config.single_node()) Primary();
    Program();
    StacksOfHang();
    Accelerators();
    SharedMemory();
    TemporaryFiles();
    LogFolder();
    OomGroup();
    return std::move(findings_);
  }

 private:
  void Add(Kind kind, std::string name, std::string text, std::string advice = "") {
    findings_.push_back({kind, std::move(name), std::move(text), std::move(advice)});
  }

  void Membership() {
    Add(Kind::kGood, "place", Summary(plan_));
    for (const std::string& warning : plan_.shown.warnings) Add(Kind::kWrong, "settings", warning);
    for (const std::string& note : plan_.shown.notes) Add(Kind::kNote, "settings", note);
  }

  void ProtectionOfJob() {
    const ShownProtection shown = ShowProtection(plan_.host.config);
    const std::string text = absl::StrCat(shown.kind, " (", shown.origin, ")");
    const rendezvous::Protection protection = rendezvous::ProtectionOf(plan_.host.config);
    const bool dated = protection == rendezvous::Protection::kCertificates;
    const std::string age = dated ? probe_.age_of_certificates(plan_.host.config) : "";
    if (!age.empty()) return Add(Kind::kWrong, "protection", text, age);
    if (protection != rendezvous::Protection::kNone) return Add(Kind::kGood, "protection", text);
    Add(Kind::kNote, "protection", text,
        "where others can reach that port, give all nodes the same token with --token-file or MUSTER_TOKEN "
        "(muster token prints one)");
  }

  std::string NameOf(const char* what) const {
    return absl::StrCat(plan_.host.config.coordinator_alone() ? "coordinator's " : "primary's ", what);
  }

  bool Serves() const {
    const v1::NodeConfig::Serves serves = plan_.host.config.serves();
    if (serves == v1::NodeConfig::SERVES_YES || serves == v1::NodeConfig::SERVES_NO) {
      return serves == v1::NodeConfig::SERVES_YES;
    }
    return probe_.is_own_address(plan_.host.config.primary().host());
  }

  void Primary() {
    const std::string host = plan_.host.config.primary().host();
    const uint16_t port = static_cast<uint16_t>(plan_.host.config.primary().port());
    if (Serves()) {
      const bool port_is_free = OwnPort(port);
      if (!plan_.host.config.primary_source().empty() && !plan_.host.config.loopback_only())
        OwnAddress(host, port_is_free);
      const std::string few = probe_.few_descriptors(plan_.host.config);
      if (!few.empty()) Add(Kind::kWrong, "descriptors", few);
      return;
    }
    const auto addresses = probe_.resolve(host);
    if (!addresses.ok() && !plan_.host.config.primary_address().empty()) {
      const std::string& address = plan_.host.config.primary_address();
      Add(Kind::kNote, NameOf("name"),
          absl::StrCat(std::string(AsStd(addresses.status().message())), "; using the address of its Service, ",
                       address));
      return Connect({address}, port);
    }
    if (!addresses.ok()) {
      Add(Kind::kUnreachable, NameOf("name"), std::string(AsStd(addresses.status().message())),
          "check the spelling; names of pods and replicas may appear a minute late, so try again; on Kubernetes "
          "the headless Service needs publishNotReadyAddresses: true");
      return;
    }
    const size_t shown = std::min(addresses->size(), kMaxAddressesShown);
    Add(Kind::kGood, NameOf("name"),
        absl::StrCat(host, " resolves to ",
                     absl::StrJoin(addresses->begin(), addresses->begin() + static_cast<ptrdiff_t>(shown), ", ")));
    Connect(*addresses, port);
  }

  // Returns whether the port is free.
  bool OwnPort(uint16_t port) {
    const absl::Status free = probe_.listen(plan_.host.config);
    const std::string name = NameOf("port");
    if (free.ok()) {
      Add(Kind::kGood, name, absl::StrCat("this node is the primary, and port ", port, " is free"));
    } else if (absl::IsUnavailable(free)) {
      ReportPortInUse(port);
    } else {
      Add(Kind::kWrong, name, std::string(AsStd(free.message())), "choose another port with --master-port");
    }
    return free.ok();
  }

  // Checks an address that an option or variable gives for this node, the primary: the other nodes connect to it.
  // Addresses that a platform gives are not checked.
  void OwnAddress(const std::string& host, bool port_is_free) {
    const std::string name = NameOf("address");
    const std::string& source = plan_.host.config.primary_source();
    const auto addresses = probe_.resolve(host);
    if (!addresses.ok()) {
      return Add(Kind::kWrong, name, absl::StrCat(source, ": ", std::string(AsStd(addresses.status().message()))),
                 "check the spelling: the other nodes connect to this one by that name");
    }
    for (const std::string& address : *addresses) {
      if (probe_.is_own_address(address))
        return Add(Kind::kGood, name, absl::StrCat(address, " is an address of this machine"));
    }
    const std::string& address = addresses->front();
    const std::string what =
        absl::StrCat(source, " ", host, host == address ? "" : absl::StrCat(" (", address, ")"),
                     " is not an address of this machine");
    if (!port_is_free) return Add(Kind::kNote, name, what, kForwarded);
    const absl::Status leads_here = probe_.leads_here(address, plan_.host.config);
    if (leads_here.ok()) return Add(Kind::kGood, name, absl::StrCat(what, ", but connections to it arrive here"));
    Add(Kind::kWrong, name,
        absl::StrCat(what,
                     ", and connections to it do not arrive here: ", std::string(AsStd(leads_here.message()))),
        kForwarded);
  }

  // A muster that listens has refused. It may be the job that this check is for, if this command has other
  // credentials.
  static bool IsRefusal(const absl::Status& asked) {
    return absl::IsFailedPrecondition(asked) || absl::IsPermissionDenied(asked);
  }

  std::string HeldBy(uint16_t port) const {
    const std::string holder = probe_.port_holder(port);
    return holder.empty() ? "" : absl::StrCat("; held by ", holder);
  }

  // Asks through loopback: on some platforms a primary cannot reach itself by its own name.
  void ReportPortInUse(uint16_t port) {
    v1::NodeConfig own = plan_.host.config;
    if (!own.loopback_only()) own.mutable_primary()->set_host("127.0.0.1");
    const absl::Status asked = probe_.ask_coordinator(own).status();
    if (absl::IsNotFound(asked)) {
      const std::string why(AsStd(asked.message()));
      return Add(Kind::kUnreachable, NameOf("port"),
                 absl::StrCat("this node is the primary, and port ", port, " is in use by another program: ", why,
                              HeldBy(port)),
                 "stop that program, or choose another port with --master-port on all nodes");
    }
    if (IsRefusal(asked)) {
      const std::string why(AsStd(asked.message()));
      return Add(
          Kind::kUnreachable, NameOf("port"),
          absl::StrCat("this node is the primary, and a muster that refuses this node already listens on port ",
                       port, ": ", why, HeldBy(port)),
          "if that is this job, give this command the job's run id and credentials (--rdzv-id, --token-file, "
          "MUSTER_TOKEN or --tls-*); else choose another port with --master-port on all nodes");
    }
    Add(Kind::kNote, NameOf("port"),
        absl::StrCat("this node is the primary, and a muster already listens on port ", port, HeldBy(port)),
        "unless it belongs to this job, choose another port with --master-port on all nodes, or wait until that "
        "job has ended");
  }

  // Uses the first address that answers; reports the first failure if none does.
  void Connect(const std::vector<std::string>& addresses, uint16_t port) {
    absl::Status first;
    for (const std::string& address : addresses) {
      const absl::Status status = probe_.connect(address, port);
      if (status.ok()) return AskPrimary(address, absl::StrCat(address, ", port ", port));
      if (first.ok()) first = status;
    }
    const std::string why(AsStd(first.message()));
    if (absl::IsUnavailable(first)) {
      return Add(Kind::kNote, NameOf("port"), why,
                 plan_.host.config.coordinator_alone() ? "expected until muster coordinator runs there"
                                                       : "expected until muster runs on the primary");
    }
    Add(Kind::kUnreachable, NameOf("port"), why,
        absl::StrCat("allow connections to port ", port,
                     " there: check firewalls, security groups and network policies"));
  }

  void AskPrimary(const std::string& address, const std::string& where) {
    v1::NodeConfig config = plan_.host.config;
    config.mutable_primary()->set_host(address);
    const absl::StatusOr<absl::Duration> ahead = probe_.ask_coordinator(config);
    if (absl::IsNotFound(ahead.status())) {
      const std::string why(AsStd(ahead.status().message()));
      return Add(
          Kind::kUnreachable, NameOf("port"),
          absl::StrCat("the program that answers on ", where, " is not muster: ", why,
                       probe_.is_own_address(address)
                           ? HeldBy(static_cast<uint16_t>(plan_.host.config.primary().port()))
                           : ""),
          "stop the program that listens there, or give all nodes another port (a proxy may answer like this "
          "before muster has started)");
    }
    Add(Kind::kGood, NameOf("port"), absl::StrCat("muster answers on ", where));
    if (absl::IsPermissionDenied(ahead.status())) {
      return Add(Kind::kUnreachable, "credentials", std::string(AsStd(ahead.status().message())),
                 "this node and the primary need the same --rdzv-id, and one token, or valid certificates of one "
                 "authority");
    }
    if (absl::IsFailedPrecondition(ahead.status())) {
      return Add(Kind::kUnreachable, "admission", std::string(AsStd(ahead.status().message())),
                 "muster run would end here with exit code 77");
    }
    if (!ahead.ok()) return Add(Kind::kNote, "clock", std::string(AsStd(ahead.status().message())));
    const std::string text =
        absl::StrFormat("%.1f s %s %s", std::abs(absl::ToDoubleSeconds(*ahead)),
                        *ahead < absl::ZeroDuration() ? "behind" : "ahead of",
                        plan_.host.config.coordinator_alone() ? "the coordinator's" : "the primary's");
    if (absl::AbsDuration(*ahead) <= kMaxClockOffset) return Add(Kind::kGood, "clock", text);
    Add(Kind::kWrong, "clock", text,
        "no decision of muster depends on it, but logs cannot be put in order and --deadline ends nodes at "
        "different times: synchronise both clocks by NTP");
  }

  void Program() {
    if (plan_.view.role != discovery::NodeRole::kTrainer) return;
    const std::string& python = report_.interpreter.path;
    if (!plan_.no_python && python.empty()) {
      return Add(Kind::kWrong, "python", "no interpreter was found",
                 "put one on PATH, or use --python or --no-python");
    }
    if (!plan_.no_python) Python(python);
    if (program_.exit_code != 0) Add(Kind::kWrong, "program", program_.problem, "no worker can be started");
  }

  void Python(const std::string& python) {
    const std::string shown = OneLine(python);
    // Without a file to execute the line of the program says what is wrong.
    if (program_.path.empty()) return Add(Kind::kGood, "python", shown);
    const absl::StatusOr<std::string> torch = probe_.torch_version(program_.path);
    if (absl::IsNotFound(torch.status())) {
      return Add(Kind::kNote, "python", absl::StrCat(shown, ", no torch there"),
                 "unless the script needs none, activate the environment that has it, or give its Python with "
                 "--python");
    }
    if (absl::IsInvalidArgument(torch.status())) {
      return Add(Kind::kWrong, "python", absl::StrCat(shown, " is no Python that runs"),
                 "correct --python or PATH");
    }
    if (absl::IsDeadlineExceeded(torch.status())) {
      return Add(Kind::kWrong, "python", absl::StrCat(shown, " does not answer"),
                 "try it by hand: a file system that it reads may hang");
    }
    Add(Kind::kGood, "python", torch.ok() ? absl::StrCat(shown, ", torch ", OneLine(*torch)) : shown);
  }

  // Whether a snapshot of a hang will show lines of code.
  void StacksOfHang() {
    const std::string& python = program_.path.empty() ? report_.interpreter.path : program_.path;
    if (plan_.view.role != discovery::NodeRole::kTrainer || plan_.host.config.slots() == 0) return;
    if (plan_.host.config.hang_timeout_ms() == 0 || plan_.no_python || python.empty()) return;
    const auto& preload = plan_.settings.workers.preload;
    const std::string instead =
        absl::StrCat("a hang is seen, but ", !preload || preload->value.IsNothing()
                                                 ? "no line of code is shown"
                                                 : "only workers whose main thread waits show their lines");
    const std::string tool = StackTool(python);
    if (tool.empty()) {
      Add(Kind::kNote, kStacks,
          absl::StrCat(kStackTool, " is neither beside ", OneLine(python), " nor on PATH: ", instead),
          absl::StrCat("install it: ", OneLine(python), " -m pip install ", kStackTool));
    } else if (MayLookAtWorkers()) {
      Add(Kind::kGood, kStacks, tool);
    } else {
      Add(Kind::kNote, kStacks,
          absl::StrCat(tool, " may not look at the workers (", kTraceScope, " is not 0): ", instead),
          "set kernel.yama.ptrace_scope to 0, or give the container CAP_SYS_PTRACE");
    }
  }

  // The file of py-spy; empty: there is none.
  std::string StackTool(const std::string& python) const {
    const std::string beside = python.substr(0, python.rfind('/') + 1) + kStackTool;
    for (const std::string& file : {beside, std::string(kStackTool)}) {
      const machine::ProgramCheck found = machine::CheckProgram(machine::ProgramKind::kProgram, file, {},
                                                                report_.environment, probe_.look_at_file);
      if (!found.path.empty()) return found.path;
    }
    return "";
  }

  // Yama (the kernel's documentation of its scopes) lets only ancestors look at a process, or those with
  // CAP_SYS_PTRACE; py-spy is no ancestor of the workers.
  bool MayLookAtWorkers() const {
    const auto scope = probe_.read_file(kTraceScope, kMaxProcFileBytes);
    if (!scope.ok() || absl::StartsWith(*scope, "0")) return true;
    const auto status = probe_.read_file(kOwnStatus, kMaxProcFileBytes);
    if (!status.ok()) return false;
    const size_t at = status->find(kCapabilities);
    if (at == std::string::npos) return false;
    const uint64_t capabilities = std::strtoull(status->c_str() + at + std::strlen(kCapabilities), nullptr, 16);
    return (capabilities >> CAP_SYS_PTRACE & 1) != 0;
  }

  void Accelerators() {
    const machine::Accelerators& found = report_.accelerators;
    const int slots = plan_.host.config.slots();
    const std::string what =
        absl::StrCat(found.reason, "; ", slots, slots == 1 ? " worker" : " workers", " on this node");
    if (!found.unknown.empty()) {
      Add(Kind::kWrong, "accelerators", absl::StrCat("not counted: ", absl::StrJoin(found.unknown, ", ")),
          "set --nproc-per-node to a number");
    } else if (found.count > 0 && slots > found.count) {
      Add(Kind::kWrong, "accelerators", absl::StrCat(what, ": more workers than accelerators"),
          "set --nproc-per-node gpu");
    } else if (found.count > 0 && slots > 0 && slots < found.count) {
      Add(Kind::kNote, "accelerators", absl::StrCat(what, ": fewer workers than accelerators"),
          "set --nproc-per-node gpu, unless a worker uses several");
    } else {
      Add(Kind::kGood, "accelerators", what);
    }
    for (const std::string& warning : found.warnings) Add(Kind::kWrong, "accelerators", warning);
  }

  void SharedMemory() {
    const absl::StatusOr<int64_t> bytes = probe_.shared_memory_bytes();
    if (!bytes.ok()) {
      return Add(Kind::kWrong, "/dev/shm", std::string(AsStd(bytes.status().message())),
                 "mount it: DataLoader workers and NCCL need it");
    }
    const std::string size = absl::StrCat(*bytes >> 20, " MiB");
    if (*bytes >= kLeastSharedMemory || plan_.host.config.slots() == 0) return Add(Kind::kGood, "/dev/shm", size);
    Add(Kind::kWrong, "/dev/shm", absl::StrCat(size, ": DataLoader workers and NCCL may end with a bus error"),
        "use docker run --shm-size 8g or --ipc host; on Kubernetes mount an emptyDir with medium: Memory there");
  }

  void TemporaryFiles() {
    // With a log folder the files are there.
    if (plan_.host.config.slots() == 0 || plan_.settings.output.log_dir) return;
    const absl::StatusOr<std::string> instead = probe_.make_temporary_file();
    if (instead.ok() && instead->empty()) return Add(Kind::kGood, "temporary files", "can be made");
    if (instead.ok()) {
      return Add(Kind::kNote, "temporary files", absl::StrCat("can be made ", OneLine(*instead)),
                 "if they should be elsewhere, name a folder that can be written in TMPDIR");
    }
    Add(Kind::kWrong, "temporary files", std::string(AsStd(instead.status().message())),
        "workers would have no error file and no MUSTER_DONE_FILE: with a read-only root file system mount an "
        "emptyDir at /tmp, or name another folder in TMPDIR");
  }

  void LogFolder() {
    const std::string& folder = plan_.launch.output.log_dir;
    if (plan_.host.config.slots() == 0 || !plan_.settings.output.log_dir || folder == host::kNoFiles) return;
    const absl::Status possible = probe_.can_be_written(folder);
    if (possible.ok()) return Add(Kind::kGood, "log folder", absl::StrCat(folder, " can be written"));
    Add(Kind::kWrong, "log folder", std::string(AsStd(possible.message())),
        "the output would be on the console alone: name another folder with --log-dir");
  }

  // The file of this process's cgroup (version 2), by the path that its own namespace shows; empty: unknown.
  std::string OomGroupFile() const {
    const auto text = probe_.read_file(kOwnCgroup, kMaxCgroupFileBytes);
    if (!text.ok()) return "";
    for (absl::string_view line : absl::StrSplit(*text, '\n')) {
      if (absl::ConsumePrefix(&line, "0::")) {
        return absl::StrCat(kCgroupRoot, line == "/" ? "" : line, "/memory.oom.group");
      }
    }
    return "";
  }

  void OomGroup() {
    const std::string file = OomGroupFile();
    const auto value = file.empty() ? absl::NotFoundError("") : probe_.read_file(file, kMaxCgroupFileBytes);
    constexpr char kName[] = "out of memory";
    if (!value.ok())
      return Add(Kind::kGood, kName, "the kernel kills one process at a time, as far as can be determined");
    if (!absl::StartsWith(*value, "1")) {
      return Add(Kind::kGood, kName,
                 "the kernel kills one process, and muster reports it (memory.oom.group is 0)");
    }
    Add(Kind::kNote, kName,
        "memory.oom.group is 1: the kernel kills the whole container, with muster and its report",
        "kubelets set it since 1.28; their option singleProcessOOMKill: true turns it off");
  }

  const EnvReport& report_;
  const RunPlan& plan_;
  const machine::ProgramCheck& program_;
  const CheckProbe& probe_;
  std::vector<Finding> findings_;
};

const char* Mark(Kind kind) {
  switch (kind) {
    case Kind::kGood:
      return "ok";
    case Kind::kNote:
      return "note";
    case Kind::kWrong:
    case Kind::kUnreachable:
      return "WRONG";
  }
  return "";
}

}  // namespace

std::vector<Finding> CheckNode(const EnvReport& report, const machine::ProgramCheck& program,
                               const CheckProbe& probe) {
  return Checker(report, program, probe).Run();
}

int ExitCodeOf(const std::vector<Finding>& findings) {
  int code = 0;
  for (const Finding& finding : findings) {
    if (finding.kind == Kind::kUnreachable) return kExitUnavailable;
    if (finding.kind == Kind::kWrong) code = kExitProblemFound;
  }
  return code;
}

std::string CheckTable(const std::vector<Finding>& findings) {
  std::string out;
  int wrong = 0;
  for (const Finding& finding : findings) {
    wrong += finding.kind >= Kind::kWrong ? 1 : 0;
    absl::StrAppend(&out, absl::StrFormat("%-6s %-18s ", Mark(finding.kind), finding.name), finding.text, "\n");
    if (!finding.advice.empty()) absl::StrAppend(&out, std::string(26, ' '), "-> ", finding.advice, "\n");
  }
  absl::StrAppend(&out,
                  wrong == 0   ? "No problems found."
                  : wrong == 1 ? "1 problem found."
                               : absl::StrCat(wrong, " problems found."),
                  "\n");
  return out;
}

}  // namespace muster::cli
