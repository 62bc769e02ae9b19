#include "cli/plan/machine.h"

#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "agent/platform/discovery/discover.h"
#include "agent/platform/machine/accelerators.h"
#include "agent/platform/machine/machine_probe.h"
#include "agent/platform/machine/numa_binding.h"
#include "base/core/check.h"
#include "base/core/status_macros.h"
#include "base/crypto/identity.h"
#include "base/proc/keyboard.h"
#include "base/proc/process_setup.h"
#include "cli/plan/version.h"
#include "rendezvous/transport/address.h"
#include "rendezvous/transport/credential_files.h"

extern char** environ;

namespace muster::cli {
namespace {

constexpr size_t kTokenBytes = 32;
constexpr size_t kRunIdBytes = 8;
constexpr size_t kMaxLinkBytes = 4096;
constexpr absl::Duration kFindSelfLimit = absl::Seconds(20);  // for resolving the names of a hostfile
constexpr int kDiscoverTries = 5;
constexpr absl::Duration kDiscoverPause = absl::Milliseconds(500);

std::string ReadLink(const char* path) {
  std::array<char, kMaxLinkBytes> buffer;
  const ssize_t size = readlink(path, buffer.data(), buffer.size());
  return size < 0 ? std::string() : std::string(buffer.data(), static_cast<size_t>(size));
}

std::string ReadLine(const char* path) {
  std::string line;
  std::ifstream file(path);
  std::getline(file, line);  // empty: the file cannot be read
  return line;
}

// Whether this is process 1, or the host that our own process 1 started.
bool IsFirstProcess() {
  if (getpid() == 1) return true;
  return getppid() == 1 && ReadLink("/proc/1/exe") == ReadLink("/proc/self/exe") &&
         !ReadLink("/proc/1/exe").empty();
}

bool LeadToOneFile(int a, int b) {
  struct stat first = {}, second = {};
  return fstat(a, &first) == 0 && fstat(b, &second) == 0 && first.st_dev == second.st_dev &&
         first.st_ino == second.st_ino;
}

// Retries while a file that the platform has created is not filled yet.
absl::StatusOr<discovery::ClusterView> DiscoverWithRetries(const Environment& environment,
                                                           const discovery::DiscoverOptions& asked) {
  const discovery::FileReader read_file = machine::ReadRegularFile;
  discovery::DiscoverOptions options = asked;
  options.hostfile.hostname = Hostname();
  options.hostfile.is_own_address = [](const std::string& address) {
    return rendezvous::IsLocalAddress(address).value_or(false);
  };
  using Answer = std::optional<bool>;
  options.hostfile.resolves_to_own = [until = absl::Now() + kFindSelfLimit](const std::string& name) {
    if (absl::Now() >= until) return Answer();
    const absl::StatusOr<bool> own = rendezvous::IsLocalAddress(name);
    return own.ok() ? Answer(*own) : Answer();
  };
  for (int tries_left = kDiscoverTries; true; --tries_left) {
    auto view = discovery::Discover({environment, read_file}, options);
    if (tries_left == 1 || !absl::IsUnavailable(view.status())) return view;
    absl::SleepFor(kDiscoverPause);
  }
}

}  // namespace

std::string Hostname() {
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? std::string(name.data()) : std::string("unknown");
}

std::string RandomHex(size_t bytes) {
  std::string raw(bytes, '\0');
  MUSTER_CHECK(getrandom(raw.data(), raw.size(), 0) == static_cast<ssize_t>(bytes), "getrandom failed");
  return absl::BytesToHexString(raw);
}

Environment ReadEnvironment() {
  Environment environment;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const size_t equals = text.find('=');
    if (equals == std::string_view::npos) continue;
    // The first of equal names counts, as for getenv.
    environment.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  return environment;
}

Environment TakeEnvironment() {
  Environment environment = ReadEnvironment();
  EraseVariable(kTokenVariable);
  return environment;
}

std::string NewToken() { return RandomHex(kTokenBytes); }

Machine ReadMachine(const Environment& environment) {
  Machine machine;
  machine.hostname = Hostname();
  machine.boot_id = ReadLine("/proc/sys/kernel/random/boot_id");
  machine.pid_namespace = ReadLink("/proc/self/ns/pid");
  machine.host_secret = NewSecret();
  machine.random_run_id = RandomHex(kRunIdBytes);
  machine.version = ReleaseVersion();
  // The device exists as soon as the driver has a GPU; counting GPUs would take seconds.
  machine.nvidia_driver = access("/dev/nvidiactl", F_OK) == 0;
  machine.first_process = IsFirstProcess();
  machine.dialogue = HasDialogue();
  machine.out_is_terminal = isatty(STDOUT_FILENO) == 1;
  machine.err_is_terminal = isatty(STDERR_FILENO) == 1;
  machine.streams_are_one = LeadToOneFile(STDOUT_FILENO, STDERR_FILENO);
  machine.accelerators = [&environment] {
    return machine::CountAccelerators(environment, machine::SystemProbe());
  };
  machine.count_workers = [&environment](const std::string& kind) {
    return machine::CountWorkers(kind, environment, machine::SystemProbe());
  };
  machine.read_file = [](const std::string& path) { return machine::SystemProbe().read(path); };
  machine.read_secret = ReadSecretFile;
  machine.check_certificates = [](const v1::NodeConfig& config) {
    return rendezvous::CheckCertificates(config, rendezvous::RoleOf(config), absl::Now());
  };
  machine.bind_to_cpus = [](const std::string& mode, const std::vector<int>& gpus) {
    const machine::MachineProbe probe = machine::SystemProbe();
    return machine::BindToCpus(mode, gpus, machine::GpuBusIds(probe), machine::AllowedCpus(), probe);
  };
  machine.discover = DiscoverWithRetries;
  machine.sources_here = [](const Environment& variables, const discovery::DiscoverOptions& options) {
    const discovery::FileReader read_file = machine::ReadRegularFile;
    return discovery::SourcesHere({variables, read_file}, options);
  };
  return machine;
}

ProcessFacts ReadProcess(const Environment& environment, const std::string& called_as) {
  std::error_code unknown;
  return {.environment = environment,
          .called_as = called_as,
          .folder = std::filesystem::current_path(unknown).string(),
          .now = absl::Now(),
          .user = geteuid(),
          .pid = getpid(),
          .probe = machine::ProbeFile};
}

}  // namespace muster::cli
