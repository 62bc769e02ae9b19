// Findings of `muster env --check` on a simulated machine and network.
#include "cli/env/env_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace muster::cli {
namespace {

using ::testing::Contains;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::Not;
using Kind = Finding::Kind;

constexpr int64_t kMebibyte = int64_t{1} << 20;

struct Node {
  RunPlan plan;
  machine::Interpreter interpreter{"/p/python", "found"};
  machine::Accelerators accelerators;
  Environment environment;
  machine::ProgramCheck program;
  std::map<std::string, std::string> files;
  CheckProbe probe;

  Node() {
    plan.view.source = "flags";
    plan.host.config.mutable_primary()->set_host("primary");
    plan.host.config.mutable_primary()->set_port(2222);
    plan.host.config.set_place(1);
    plan.host.config.set_max_nodes(2);
    plan.host.config.set_slots(1);
    plan.host.config.set_serves(v1::NodeConfig::SERVES_NO);
    accelerators.reason = "none was found";
    probe.resolve = [](const std::string&) { return std::vector<std::string>{"10.0.0.1", "10.0.0.2"}; };
    probe.connect = [](const std::string&, uint16_t) { return absl::OkStatus(); };
    probe.ask_coordinator = [](const v1::NodeConfig&) { return absl::Milliseconds(200); };
    probe.listen = [](const v1::NodeConfig&) { return absl::OkStatus(); };
    probe.port_holder = [](uint16_t) { return ""; };
    probe.is_own_address = [](const std::string&) { return false; };
    probe.leads_here = [](const std::string&, const v1::NodeConfig&) { return absl::OkStatus(); };
    probe.shared_memory_bytes = [] { return 8192 * kMebibyte; };
    probe.make_temporary_file = [] { return ""; };
    probe.can_be_written = [](const std::string&) { return absl::OkStatus(); };
    probe.few_descriptors = [](const v1::NodeConfig&) { return ""; };
    probe.torch_version = [](const std::string&) { return "2.13.0"; };
    probe.age_of_certificates = [](const v1::NodeConfig&) { return ""; };
    probe.look_at_file = [this](const std::string& path) {
      const bool is_there = files.count(path) > 0;
      return machine::FileState{.exists = is_there, .is_directory = false, .executable = is_there};
    };
    probe.read_file = [this](const std::string& path, size_t) -> absl::StatusOr<std::string> {
      const auto found = files.find(path);
      if (found == files.end()) return absl::NotFoundError(path);
      return found->second;
    };
  }
  Node(const Node&) = delete;

  std::vector<Finding> Check() const {
    return CheckNode({plan, interpreter, accelerators, environment}, program, probe);
  }
};

// The last finding with this name.
std::optional<Finding> Of(const std::vector<Finding>& findings, const std::string& name) {
  std::optional<Finding> found;
  for (const Finding& finding : findings) {
    if (finding.name == name) found = finding;
  }
  return found;
}

Finding Named(const Node& node, const std::string& name) {
  const auto found = Of(node.Check(), name);
  EXPECT_TRUE(found.has_value()) << name;
  return found.value_or(Finding());
}

TEST(EnvCheck, AHealthyNodeIsZero) {
  const Node node;
  const std::vector<Finding> findings = node.Check();
  EXPECT_EQ(ExitCodeOf(findings), 0);
  EXPECT_THAT(CheckTable(findings), HasSubstr("No problems found."));
  EXPECT_EQ(Of(findings, "primary's name")->text, "primary resolves to 10.0.0.1, 10.0.0.2");
  EXPECT_EQ(Of(findings, "clock")->text, "0.2 s ahead of the primary's");
}

TEST(EnvCheck, AnUnresolvedNameIs69WithoutAConnection) {
  Node node;
  node.probe.resolve = [](const std::string& host) -> absl::StatusOr<std::vector<std::string>> {
    return absl::NotFoundError(absl::StrCat("resolving ", host, ": no"));
  };
  const std::vector<Finding> findings = node.Check();
  EXPECT_EQ(ExitCodeOf(findings), 69);
  EXPECT_EQ(Of(findings, "primary's name")->kind, Kind::kUnreachable);
  EXPECT_FALSE(Of(findings, "primary's port").has_value());
}

TEST(EnvCheck, TheServiceAddressReplacesAnUnresolvedName) {
  Node node;
  node.plan.host.config.set_primary_address("10.12.0.81");
  node.probe.resolve = [](const std::string&) -> absl::StatusOr<std::vector<std::string>> {
    return absl::NotFoundError("no");
  };
  const std::vector<Finding> findings = node.Check();
  EXPECT_EQ(ExitCodeOf(findings), 0);
  EXPECT_EQ(Of(findings, "primary's port")->text, "muster answers on 10.12.0.81, port 2222");
}

TEST(EnvCheck, OnlyAMutePrimaryIsAFault) {
  Node node;
  node.probe.connect = [](const std::string&, uint16_t) { return absl::UnavailableError("nothing listens"); };
  EXPECT_EQ(Named(node, "primary's port").kind, Kind::kNote);
  EXPECT_EQ(ExitCodeOf(node.Check()), 0);
  node.probe.connect = [](const std::string&, uint16_t) { return absl::DeadlineExceededError("no answer"); };
  EXPECT_EQ(Named(node, "primary's port").kind, Kind::kUnreachable);
  EXPECT_THAT(Named(node, "primary's port").advice, HasSubstr("firewalls"));
}

TEST(EnvCheck, OneReachableAddressIsEnough) {
  Node node;
  node.probe.connect = [](const std::string& address, uint16_t) {
    return address == "10.0.0.2" ? absl::OkStatus() : absl::DeadlineExceededError("no answer");
  };
  EXPECT_EQ(Named(node, "primary's port").text, "muster answers on 10.0.0.2, port 2222");
}

TEST(EnvCheck, ThePrimaryChecksItsPortOnly) {
  Node node;
  node.plan.host.config.set_place(0);
  node.plan.host.config.set_serves(v1::NodeConfig::SERVES_YES);
  node.probe.resolve = nullptr;
  node.probe.connect = nullptr;
  EXPECT_EQ(Named(node, "primary's port").text, "this node is the primary, and port 2222 is free");
  node.probe.listen = [](const v1::NodeConfig&) { return absl::UnavailableError("in use"); };
  EXPECT_EQ(Named(node, "primary's port").kind, Kind::kNote) << "the job itself may run";
  node.probe.listen = [](const v1::NodeConfig&) { return absl::PermissionDeniedError("not permitted"); };
  EXPECT_EQ(ExitCodeOf(node.Check()), 1);
}

// Node 0 by --master-addr, whose name resolves to 10.0.0.1 and 10.0.0.2.
struct PrimaryByHand : Node {
  PrimaryByHand() {
    plan.host.config.set_place(0);
    plan.host.config.set_serves(v1::NodeConfig::SERVES_YES);
    plan.host.config.set_primary_source("--master-addr");
  }
};

TEST(EnvCheck, AForeignPrimaryAddressIsWrong) {
  PrimaryByHand node;
  node.probe.leads_here = [](const std::string& address, const v1::NodeConfig&) {
    return absl::UnavailableError(absl::StrCat("cannot reach ", address));
  };
  EXPECT_EQ(
      Named(node, "primary's address").text,
      "--master-addr primary (10.0.0.1) is not an address of this machine, and connections to it do not arrive "
      "here: cannot reach 10.0.0.1");
  EXPECT_THAT(Named(node, "primary's address").advice, HasSubstr("give the address of node 0"));
  EXPECT_EQ(ExitCodeOf(node.Check()), 1);
}

TEST(EnvCheck, AForwardedPrimaryAddressIsNoFault) {
  PrimaryByHand node;  // NAT, or a published port of a container: a connection to it comes back
  EXPECT_EQ(
      Named(node, "primary's address").text,
      "--master-addr primary (10.0.0.1) is not an address of this machine, but connections to it arrive here");
  EXPECT_EQ(ExitCodeOf(node.Check()), 0);
  node.probe.is_own_address = [](const std::string& address) { return address == "10.0.0.2"; };
  node.probe.leads_here = nullptr;
  EXPECT_EQ(Named(node, "primary's address").text, "10.0.0.2 is an address of this machine");
}

TEST(EnvCheck, OnAPlatformThePrimarysAddressIsTrusted) {
  PrimaryByHand node;
  node.plan.host.config.clear_primary_source();
  node.probe.resolve = nullptr;  // on some platforms a primary cannot reach itself by its own name
  EXPECT_EQ(ExitCodeOf(node.Check()), 0);
}

TEST(EnvCheck, ABusyPortOnlyReportsAForeignAddress) {
  PrimaryByHand node;
  node.probe.listen = [](const v1::NodeConfig&) { return absl::UnavailableError("in use"); };
  node.probe.leads_here = nullptr;
  EXPECT_EQ(Named(node, "primary's address").kind, Kind::kNote);
  node.probe.resolve = [](const std::string&) -> absl::StatusOr<std::vector<std::string>> {
    return absl::NotFoundError("resolving primary: no");
  };
  EXPECT_THAT(Named(node, "primary's address").advice, HasSubstr("check the spelling"));
}

TEST(EnvCheck, ThePortsHolderIsNamed) {
  Node node;
  node.plan.host.config.set_serves(v1::NodeConfig::SERVES_YES);
  node.probe.listen = [](const v1::NodeConfig&) { return absl::UnavailableError("in use"); };
  node.probe.port_holder = [](uint16_t port) { return absl::StrCat("process 71 (python3, ", port, ")"); };
  EXPECT_THAT(Named(node, "primary's port").text, HasSubstr("; held by process 71 (python3, 2222)"));
}

TEST(EnvCheck, AStandaloneCoordinatorIsNamed) {
  Node node;
  node.plan.host.config.set_coordinator_alone(true);
  node.plan.host.config.mutable_primary()->set_host("c");
  EXPECT_EQ(Named(node, "clock").text, "0.2 s ahead of the coordinator's");
  node.probe.connect = [](const std::string&, uint16_t) { return absl::UnavailableError("nothing listens"); };
  EXPECT_THAT(Named(node, "coordinator's port").advice, HasSubstr("until muster coordinator runs there"));
  EXPECT_THAT(CheckTable(node.Check()), Not(HasSubstr("primary")));
}

TEST(EnvCheck, AJobOfOneNodeNeedsNoPrimary) {
  Node node;
  node.plan.host.config.set_single_node(true);
  node.probe.resolve = nullptr;
  EXPECT_EQ(ExitCodeOf(node.Check()), 0);
}

TEST(EnvCheck, AWrongClockAndTokenAreReported) {
  Node node;
  node.probe.ask_coordinator = [](const v1::NodeConfig&) { return absl::Seconds(-90); };
  EXPECT_EQ(Named(node, "clock").text, "90.0 s behind the primary's");
  EXPECT_EQ(ExitCodeOf(node.Check()), 1);
  node.probe.ask_coordinator = [](const v1::NodeConfig&) -> absl::StatusOr<absl::Duration> {
    return absl::PermissionDeniedError("the token is not this job's");
  };
  EXPECT_EQ(ExitCodeOf(node.Check()), 69);
  node.probe.ask_coordinator = [](const v1::NodeConfig&) -> absl::StatusOr<absl::Duration> {
    return absl::UnimplementedError("it does not tell");
  };
  EXPECT_EQ(ExitCodeOf(node.Check()), 0);
}

TEST(EnvCheck, ARefusalOfThisNodeIs69) {
  Node node;
  node.probe.ask_coordinator = [](const v1::NodeConfig&) -> absl::StatusOr<absl::Duration> {
    return absl::FailedPreconditionError("run id 'b' differs from this job's 'a'");
  };
  EXPECT_EQ(ExitCodeOf(node.Check()), 69);
  EXPECT_EQ(Named(node, "admission").text, "run id 'b' differs from this job's 'a'");
  EXPECT_EQ(Named(node, "primary's port").kind, Kind::kGood);
}

TEST(EnvCheck, AMusterThatRefusesThePrimaryMayBeItsOwnJob) {
  Node node;
  node.plan.host.config.set_serves(v1::NodeConfig::SERVES_YES);
  node.probe.listen = [](const v1::NodeConfig&) { return absl::UnavailableError("in use"); };
  node.probe.ask_coordinator = [](const v1::NodeConfig&) -> absl::StatusOr<absl::Duration> {
    return absl::FailedPreconditionError("run id 'b' differs from this job's 'a'");
  };
  EXPECT_EQ(ExitCodeOf(node.Check()), 69);
  EXPECT_EQ(
      Named(node, "primary's port").text,
      "this node is the primary, and a muster that refuses this node already listens on port 2222: run id 'b' "
      "differs from this job's 'a'");
  for (const auto& [why, fit] : {std::pair(absl::PermissionDeniedError("the token is not this job's"), true),
                                 std::pair(absl::UnimplementedError("no time"), false)}) {
    node.probe.ask_coordinator = [why = why](const v1::NodeConfig&) -> absl::StatusOr<absl::Duration> {
      return why;
    };
    EXPECT_THAT(Named(node, "primary's port").advice, Not(HasSubstr("stop")));
    EXPECT_EQ(absl::StrContains(Named(node, "primary's port").advice, "give this command the job's run id"), fit);
  }
}

TEST(EnvCheck, TheProtectionIsAFinding) {
  Node node;
  EXPECT_EQ(Named(node, "protection").kind, Kind::kNote);
  EXPECT_THAT(Named(node, "protection").text, HasSubstr("none (whoever reaches the primary's port can join"));
  EXPECT_THAT(Named(node, "protection").advice, HasSubstr("--token-file"));
  EXPECT_EQ(ExitCodeOf(node.Check()), 0) << "a network may be closed to others";
  node.plan.host.config.set_loopback_only(true);
  EXPECT_EQ(Named(node, "protection").kind, Kind::kGood);
  EXPECT_EQ(Named(node, "protection").text, "none (only users of this machine can connect)");
  node.plan.host.config.add_tokens("secret");
  EXPECT_EQ(Named(node, "protection").text, "token (MUSTER_TOKEN)");
}

TEST(EnvCheck, ACertificateThatEndsSoonIsAFault) {
  Node node;
  node.plan.host.config.mutable_certificates()->set_cert_file("/tls/cert.pem");
  EXPECT_EQ(Named(node, "protection").kind, Kind::kGood);
  node.probe.age_of_certificates = [](const v1::NodeConfig&) { return "renew it"; };
  EXPECT_EQ(Named(node, "protection").kind, Kind::kWrong);
  EXPECT_EQ(Named(node, "protection").advice, "renew it");
}

TEST(EnvCheck, AnotherProgramOnThePrimarysPortIsAFault) {
  Node node;
  std::string asked;
  node.probe.ask_coordinator = [&asked](const v1::NodeConfig& config) -> absl::StatusOr<absl::Duration> {
    asked = config.primary().host();
    return absl::NotFoundError("it does not speak gRPC");
  };
  EXPECT_EQ(ExitCodeOf(node.Check()), 69);
  EXPECT_EQ(asked, "10.0.0.1") << "the address that answered, even if the name resolves differently by now";
  EXPECT_EQ(Named(node, "primary's port").text,
            "the program that answers on 10.0.0.1, port 2222 is not muster: it does not speak gRPC");
  EXPECT_FALSE(Of(node.Check(), "clock").has_value());

  node.plan.host.config.set_serves(v1::NodeConfig::SERVES_YES);
  node.probe.listen = [](const v1::NodeConfig&) { return absl::UnavailableError("in use"); };
  EXPECT_EQ(ExitCodeOf(node.Check()), 69);
  EXPECT_EQ(asked, "127.0.0.1") << "a primary may not reach itself by its own name";
  EXPECT_EQ(Named(node, "primary's port").text,
            "this node is the primary, and port 2222 is in use by another program: it does not speak gRPC");
}

TEST(EnvCheck, SmallSharedMemoryIsWrongWithARemedy) {
  Node node;
  node.probe.shared_memory_bytes = [] { return 64 * kMebibyte; };
  EXPECT_THAT(Named(node, "/dev/shm").text, HasSubstr("64 MiB"));
  EXPECT_THAT(Named(node, "/dev/shm").advice, HasSubstr("--shm-size"));
  EXPECT_EQ(ExitCodeOf(node.Check()), 1);
  node.probe.shared_memory_bytes = []() -> absl::StatusOr<int64_t> { return absl::NotFoundError("none"); };
  EXPECT_EQ(Named(node, "/dev/shm").kind, Kind::kWrong);
}

TEST(EnvCheck, AReadOnlyRootNeedsAFolderForTemporaryFiles) {
  Node node;
  EXPECT_EQ(Named(node, "temporary files").kind, Kind::kGood);
  node.probe.make_temporary_file = [] { return absl::FailedPreconditionError("/tmp: Read-only file system"); };
  EXPECT_EQ(Named(node, "temporary files").kind, Kind::kWrong);
  EXPECT_EQ(Named(node, "temporary files").text, "/tmp: Read-only file system");
  EXPECT_THAT(Named(node, "temporary files").advice, HasSubstr("emptyDir at /tmp"));
  node.probe.make_temporary_file = [] { return "in /tmp, not in /scratch (TMPDIR)"; };
  EXPECT_EQ(Named(node, "temporary files").kind, Kind::kNote);
  EXPECT_EQ(Named(node, "temporary files").text, "can be made in /tmp, not in /scratch (TMPDIR)");
}

TEST(EnvCheck, ALogFolderThatCannotBeWrittenIsNamed) {
  Node node;
  node.plan.settings.output.log_dir.emplace().value = "/srv/logs";
  node.plan.launch.output.log_dir = "/srv/logs";
  EXPECT_EQ(Named(node, "log folder").kind, Kind::kGood);
  node.probe.can_be_written = [](const std::string&) {
    return absl::PermissionDeniedError("/srv: Read-only file system");
  };
  EXPECT_EQ(Named(node, "log folder").kind, Kind::kWrong);
  EXPECT_EQ(Named(node, "log folder").text, "/srv: Read-only file system");
}

TEST(EnvCheck, APrimaryWithTooFewDescriptorsIsTold) {
  Node node;
  node.probe.few_descriptors = [](const v1::NodeConfig&) { return "too few"; };
  EXPECT_THAT(node.Check(), Not(Contains(Field(&Finding::name, "descriptors")))) << "it is another node's matter";
  node.plan.host.config.set_serves(v1::NodeConfig::SERVES_YES);
  EXPECT_EQ(Named(node, "descriptors").text, "too few");
}

TEST(EnvCheck, ThePythonWithoutTorchIsNoted) {
  Node node;
  node.program.path = "/p/python";
  EXPECT_EQ(Named(node, "python").text, "/p/python, torch 2.13.0");
  node.probe.torch_version = [](const std::string&) { return absl::NotFoundError("torch"); };
  EXPECT_EQ(Named(node, "python").kind, Kind::kNote);
  EXPECT_EQ(Named(node, "python").text, "/p/python, no torch there");
  node.probe.torch_version = [](const std::string&) { return absl::DeadlineExceededError("slow"); };
  EXPECT_EQ(Named(node, "python").kind, Kind::kWrong);
  EXPECT_EQ(Named(node, "python").text, "/p/python does not answer");
  node.probe.torch_version = [](const std::string&) { return absl::InvalidArgumentError("no Python"); };
  EXPECT_EQ(Named(node, "python").kind, Kind::kWrong);
}

TEST(EnvCheck, WorkersAndAcceleratorsAreCompared) {
  Node node;
  node.accelerators.count = 4;
  node.plan.host.config.set_slots(8);
  EXPECT_EQ(Named(node, "accelerators").kind, Kind::kWrong);
  node.plan.host.config.set_slots(1);
  EXPECT_EQ(Named(node, "accelerators").kind, Kind::kNote);
  node.plan.host.config.set_slots(4);
  EXPECT_EQ(Named(node, "accelerators").kind, Kind::kGood);
  node.accelerators.unknown = {"/dev/strange0"};
  EXPECT_THAT(Named(node, "accelerators").text, HasSubstr("/dev/strange0"));
}

TEST(EnvCheck, OomGroupIsReadFromOurOwnCgroup) {
  Node node;
  node.files = {{"/proc/self/cgroup", "1:name=systemd:/x\n0::/a/b\n"},
                {"/sys/fs/cgroup/a/b/memory.oom.group", "1\n"}};
  EXPECT_EQ(Named(node, "out of memory").kind, Kind::kNote);
  EXPECT_THAT(Named(node, "out of memory").advice, HasSubstr("singleProcessOOMKill"));
  node.files = {{"/proc/self/cgroup", "0::/\n"}, {"/sys/fs/cgroup/memory.oom.group", "0\n"}};
  EXPECT_THAT(Named(node, "out of memory").text, HasSubstr("memory.oom.group is 0"));
  node.files.clear();
  EXPECT_EQ(Named(node, "out of memory").kind, Kind::kGood);
}

TEST(EnvCheck, WarningsAndAMissingInterpreterAreWrong) {
  Node node;
  node.plan.shown.warnings = {"the spec is odd"};
  node.interpreter.path.clear();
  const std::vector<Finding> findings = node.Check();
  EXPECT_EQ(ExitCodeOf(findings), 1);
  EXPECT_THAT(CheckTable(findings), HasSubstr("2 problems found."));
  node.plan.no_python = true;
  EXPECT_FALSE(Of(node.Check(), "python").has_value());
}

TEST(EnvCheck, WithHangTimeoutItSaysWhetherStacksCanBeShown) {
  Node node;
  const auto stacks = [&node] { return Named(node, "stacks of a hang"); };
  EXPECT_FALSE(Of(node.Check(), "stacks of a hang").has_value());
  node.plan.host.config.set_hang_timeout_ms(1000);
  EXPECT_EQ(stacks().kind, Kind::kNote);
  EXPECT_THAT(stacks().text, HasSubstr("no line of code is shown"));
  EXPECT_EQ(stacks().advice, "install it: /p/python -m pip install py-spy");
  EXPECT_EQ(ExitCodeOf(node.Check()), 0) << "a hang is seen without it, too";
  node.environment = {{"PATH", "/a:/b"}};
  node.files = {{"/b/py-spy", ""}};
  EXPECT_EQ(stacks().text, "/b/py-spy");
  node.files.insert({"/p/py-spy", ""});
  EXPECT_EQ(stacks().text, "/p/py-spy") << "that of the workers' Python comes first";
  EXPECT_EQ(stacks().kind, Kind::kGood);
  node.plan.view.role = discovery::NodeRole::kAux;
  EXPECT_FALSE(Of(node.Check(), "stacks of a hang").has_value()) << "it has no workers";
}

TEST(EnvCheck, WhereYamaForbidsItStacksNeedACapability) {
  Node node;
  node.plan.host.config.set_hang_timeout_ms(1000);
  node.files = {{"/p/py-spy", ""}, {"/proc/sys/kernel/yama/ptrace_scope", "0\n"}};
  EXPECT_EQ(Named(node, "stacks of a hang").kind, Kind::kGood);
  node.files["/proc/sys/kernel/yama/ptrace_scope"] = "1\n";
  node.files["/proc/self/status"] = "Name:\tmuster\nCapEff:\t00000000a80425fb\n";  // root in a container of Docker
  EXPECT_EQ(Named(node, "stacks of a hang").kind, Kind::kNote);
  EXPECT_THAT(Named(node, "stacks of a hang").text, HasSubstr("/p/py-spy may not look at the workers"));
  node.files["/proc/self/status"] = "Name:\tmuster\nCapEff:\t000001ffffffffff\n";
  EXPECT_EQ(Named(node, "stacks of a hang").kind, Kind::kGood);
}

TEST(EnvCheck, AProgramThatCannotStartIsWrong) {
  Node node;
  node.program = {.exit_code = 127, .problem = "the script t.py is not there", .path = ""};
  EXPECT_EQ(Named(node, "program").kind, Kind::kWrong);
  EXPECT_EQ(Named(node, "program").text, "the script t.py is not there");
  EXPECT_EQ(ExitCodeOf(node.Check()), 1);
  node.plan.view.role = discovery::NodeRole::kAux;
  EXPECT_FALSE(Of(node.Check(), "program").has_value()) << "it starts nothing";
}

}  // namespace
}  // namespace muster::cli
