#include "cli/env/env_check.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/ids.h"
#include "base/status_macros.h"
#include "cli/options/exit_codes.h"

namespace muster::cli {
namespace {

using Kind = Finding::Kind;

constexpr char kOwnCgroup[] = "/proc/self/cgroup";
constexpr char kCgroupRoot[] = "/sys/fs/cgroup";
constexpr int kExitLooksWrong = 1;
constexpr size_t kMaxAddressesShown = 4;
constexpr char kForwarded[] =
    "unless it is forwarded to this machine (NAT, a load balancer), no other node can find this one: give the "
    "address of node 0, or, if this is not node 0, its own --node-rank";

class Checker {
 public:
  Checker(const EnvReport& report, const machine::ProgramCheck& program, const CheckProbe& probe)
      : report_(report), plan_(report.plan), program_(program), probe_(probe) {}

  std::vector<Finding> Run() {
    Reading();
    if (!plan_.config.single_node()) Primary();
    Program();
    Accelerators();
    SharedMemory();
    OomGroup();
    return std::move(findings_);
  }

 private:
  void Add(Kind kind, std::string name, std::string text, std::string advice = "") {
    findings_.push_back({kind, std::move(name), std::move(text), std::move(advice)});
  }

  void Reading() {
    Add(Kind::kGood, "place", Summary(plan_));
    for (const std::string& warning : plan_.view.warnings) Add(Kind::kWrong, "settings", warning);
  }

  std::string Whose(const char* what) const {
    return absl::StrCat(plan_.config.coordinator_alone() ? "coordinator's " : "primary's ", what);
  }

  bool Serves() const { return plan_.config.serves() == v1::NodeConfig::SERVES_YES; }

  void Primary() {
    const std::string host = plan_.config.primary().host();
    const uint16_t port = static_cast<uint16_t>(plan_.config.primary().port());
    if (Serves()) {
      const bool port_is_free = OwnPort(port);
      if (!plan_.config.primary_source().empty() && !plan_.config.loopback_only()) OwnAddress(host, port_is_free);
      return;
    }
    const auto addresses = probe_.resolve(host);
    if (!addresses.ok() && !plan_.config.primary_address().empty()) {
      const std::string& address = plan_.config.primary_address();
      Add(Kind::kNote, Whose("name"),
          absl::StrCat(std::string(AsStd(addresses.status().message())), "; its Service has the address ",
                       address));
      return Connect({address}, port);
    }
    if (!addresses.ok()) {
      Add(Kind::kUnreachable, Whose("name"), std::string(AsStd(addresses.status().message())),
          "is it spelled right? Names of pods and replicas may come a minute late: try again; on Kubernetes the "
          "headless Service needs "
          "publishNotReadyAddresses: true");
      return;
    }
    const size_t shown = std::min(addresses->size(), kMaxAddressesShown);
    Add(Kind::kGood, Whose("name"),
        absl::StrCat(host, " is ",
                     absl::StrJoin(addresses->begin(), addresses->begin() + static_cast<ptrdiff_t>(shown), ", ")));
    Connect(*addresses, port);
  }

  // Whether it is free.
  bool OwnPort(uint16_t port) {
    const absl::Status free = probe_.listen(plan_.config);
    const std::string name = Whose("port");
    if (free.ok()) {
      Add(Kind::kGood, name, absl::StrCat("this node is the primary, and port ", port, " is free"));
    } else if (absl::IsUnavailable(free)) {
      WhoHasOwnPort(port);
    } else {
      Add(Kind::kWrong, name, std::string(AsStd(free.message())), "give --master-port");
    }
    return free.ok();
  }

  // The address that was given for this node, the primary, by hand: the others look for it there. Of one that a
  // platform gives nobody need ask.
  void OwnAddress(const std::string& host, bool port_is_free) {
    const std::string name = Whose("address");
    const std::string& source = plan_.config.primary_source();
    const auto addresses = probe_.resolve(host);
    if (!addresses.ok()) {
      return Add(Kind::kWrong, name, absl::StrCat(source, ": ", std::string(AsStd(addresses.status().message()))),
                 "the other nodes look for this one by that name: is it spelled right?");
    }
    for (const std::string& address : *addresses) {
      if (probe_.is_own_address(address))
        return Add(Kind::kGood, name, absl::StrCat(address, " is an address of this machine"));
    }
    const std::string& address = addresses->front();
    const std::string what =
        absl::StrCat(source, " ", host, host == address ? "" : absl::StrCat(" (", address, ")"),
                     " is no address of this machine");
    if (!port_is_free) return Add(Kind::kNote, name, what, kForwarded);
    const absl::Status leads_here = probe_.leads_here(address, plan_.config);
    if (leads_here.ok()) return Add(Kind::kGood, name, absl::StrCat(what, ", but leads to it"));
    Add(Kind::kWrong, name,
        absl::StrCat(what, ", and does not lead to it either: ", std::string(AsStd(leads_here.message()))),
        kForwarded);
  }

  std::string WhoHas(uint16_t port) const {
    const std::string holder = probe_.port_holder(port);
    return holder.empty() ? "" : absl::StrCat("; ", holder, " has it");
  }

  // The primary does not ask by its own name: some platforms lead it back to nobody.
  void WhoHasOwnPort(uint16_t port) {
    v1::NodeConfig own = plan_.config;
    if (!own.loopback_only()) own.mutable_primary()->set_host("127.0.0.1");
    const absl::Status asked = probe_.clock_ahead(own).status();
    if (absl::IsNotFound(asked)) {
      const std::string why(AsStd(asked.message()));
      return Add(
          Kind::kUnreachable, Whose("port"),
          absl::StrCat("this node is the primary, and port ", port, " is another program's: ", why, WhoHas(port)),
          "end that program, or give --master-port on all nodes");
    }
    Add(Kind::kNote, Whose("port"),
        absl::StrCat("this node is the primary, and a muster listens on port ", port, " already", WhoHas(port)),
        "unless that is the job itself, end it, or give --master-port on all nodes");
  }

  // The first address that answers, or else the first one's failure.
  void Connect(const std::vector<std::string>& addresses, uint16_t port) {
    absl::Status first;
    for (const std::string& address : addresses) {
      const absl::Status status = probe_.connect(address, port);
      if (status.ok()) return AskPrimary(address, absl::StrCat(address, ", port ", port));
      if (first.ok()) first = status;
    }
    const std::string said(AsStd(first.message()));
    if (absl::IsUnavailable(first)) {
      return Add(Kind::kNote, Whose("port"), said,
                 plan_.config.coordinator_alone() ? "that is as it should be until muster coordinator runs there"
                                                  : "that is as it should be until muster runs on the primary");
    }
    Add(Kind::kUnreachable, Whose("port"), said,
        absl::StrCat("the way to port ", port,
                     " there has to be open: look at firewalls, security groups "
                     "and network policies"));
  }

  void AskPrimary(const std::string& address, const std::string& where) {
    v1::NodeConfig config = plan_.config;
    config.mutable_primary()->set_host(address);
    const absl::StatusOr<absl::Duration> ahead = probe_.clock_ahead(config);
    if (absl::IsNotFound(ahead.status())) {
      const std::string why(AsStd(ahead.status().message()));
      return Add(
          Kind::kUnreachable, Whose("port"),
          absl::StrCat(
              "somebody answers on ", where, ", but no muster: ", why,
              probe_.is_own_address(address) ? WhoHas(static_cast<uint16_t>(plan_.config.primary().port())) : ""),
          "end what listens there, or give all nodes another port (a proxy may answer so for a muster that "
          "is not up yet)");
    }
    Add(Kind::kGood, Whose("port"), absl::StrCat("muster answers on ", where));
    if (absl::IsPermissionDenied(ahead.status())) {
      return Add(Kind::kUnreachable, "token", std::string(AsStd(ahead.status().message())),
                 "MUSTER_TOKEN has to be the same on all nodes");
    }
    if (!ahead.ok()) return Add(Kind::kNote, "clock", std::string(AsStd(ahead.status().message())));
    const std::string text =
        absl::StrFormat("%.1f s %s %s", std::abs(absl::ToDoubleSeconds(*ahead)),
                        *ahead < absl::ZeroDuration() ? "behind" : "ahead of",
                        plan_.config.coordinator_alone() ? "the coordinator's" : "the primary's");
    if (absl::AbsDuration(*ahead) <= kMaxClockOffset) return Add(Kind::kGood, "clock", text);
    Add(Kind::kWrong, "clock", text,
        "nothing that muster decides depends on it, but logs cannot be put in order, and --deadline ends nodes at "
        "different times: set both by NTP");
  }

  void Program() {
    if (plan_.view.role != discovery::NodeRole::kTrainer) return;
    const std::string& python = report_.interpreter.path;
    if (!plan_.no_python && python.empty()) {
      return Add(Kind::kWrong, "python", "no interpreter was found",
                 "put one on PATH, or give --python or --no-python");
    }
    if (!plan_.no_python) Add(Kind::kGood, "python", python);
    if (program_.exit_code != 0) Add(Kind::kWrong, "program", program_.problem, "no worker could be started");
  }

  void Accelerators() {
    const machine::Accelerators& found = report_.accelerators;
    const int slots = plan_.config.slots();
    const std::string what = absl::StrCat(found.reason, "; ", slots, slots == 1 ? " worker" : " workers", " here");
    if (!found.unknown.empty()) {
      Add(Kind::kWrong, "accelerators", absl::StrCat("not counted: ", absl::StrJoin(found.unknown, ", ")),
          "give --nproc-per-node with a number");
    } else if (found.count > 0 && slots > found.count) {
      Add(Kind::kWrong, "accelerators", absl::StrCat(what, ": more than there are accelerators"),
          "give --nproc-per-node gpu");
    } else if (found.count > 0 && slots > 0 && slots < found.count) {
      Add(Kind::kNote, "accelerators", absl::StrCat(what, ": some have none to use them"),
          "give --nproc-per-node gpu, unless a worker uses several");
    } else {
      Add(Kind::kGood, "accelerators", what);
    }
    for (const std::string& warning : found.warnings) Add(Kind::kWrong, "accelerators", warning);
  }

  void SharedMemory() {
    const absl::StatusOr<int64_t> bytes = probe_.shared_memory_bytes();
    if (!bytes.ok()) {
      return Add(Kind::kWrong, "/dev/shm", std::string(AsStd(bytes.status().message())),
                 "workers of a DataLoader and NCCL need it");
    }
    const std::string size = absl::StrCat(*bytes >> 20, " MiB");
    if (*bytes >= kLeastSharedMemory || plan_.config.slots() == 0) return Add(Kind::kGood, "/dev/shm", size);
    Add(Kind::kWrong, "/dev/shm",
        absl::StrCat(size, ": a DataLoader with workers, or NCCL, ends with a bus error"),
        "docker run --shm-size 8g or --ipc host; on Kubernetes an emptyDir with medium: Memory mounted there");
  }

  // Where this process is in the tree of version 2, as its own namespace sees it.
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
    if (!value.ok()) return Add(Kind::kGood, kName, "one process at a time is ended, as far as this can be seen");
    if (!absl::StartsWith(*value, "1")) {
      return Add(Kind::kGood, kName, "one process is ended, and muster tells of it (memory.oom.group is 0)");
    }
    Add(Kind::kNote, kName, "memory.oom.group is 1: the whole container is ended, muster and its report with it",
        "kubelets since 1.28 set it; their option singleProcessOOMKill: true takes it away");
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
    if (finding.kind == Kind::kWrong) code = kExitLooksWrong;
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
                  wrong == 0   ? "Nothing looks wrong."
                  : wrong == 1 ? "One thing looks wrong."
                               : absl::StrCat(wrong, " things look wrong."),
                  "\n");
  return out;
}

}  // namespace muster::cli
