#include "agent/platform/machine/machine_probe.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "base/io/read_to_end.h"
#include "base/proc/run_program.h"

namespace muster::machine {
namespace {

class Descriptor {
 public:
  explicit Descriptor(int fd = -1) : fd_(fd) {}
  ~Descriptor() { Close(); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }
  void Close() {
    if (fd_ >= 0) close(fd_);
    fd_ = -1;
  }

 private:
  int fd_;
};

absl::Status FromErrno(int error, const std::string& what) {
  const std::string message = absl::StrCat(what, ": ", std::strerror(error));
  const bool absent = error == ENOENT || error == ENOTDIR;
  return absent ? absl::NotFoundError(message) : absl::InternalError(message);
}

absl::StatusOr<ProgramResult> Run(const std::vector<std::string>& argv, absl::Duration limit) {
  return RunProgram(argv, limit);
}

std::vector<std::string> ListDirectory(const std::string& path) {
  std::vector<std::string> names;
  std::error_code error;
  for (std::filesystem::directory_iterator it(path, error), end; !error && it != end; it.increment(error)) {
    names.push_back(it->path().filename().string());
  }
  return names;
}

std::optional<std::string> ReadSmallFile(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in.good()) return std::nullopt;
  std::string text(kMaxProbeFileBytes, '\0');
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(in.gcount()));
  return text;
}

// The size of this process's affinity mask, which cpusets and taskset reduce, not the machine's number of CPUs.
int UsableCpus() {
  const std::set<int> allowed = AllowedCpus();
  if (!allowed.empty()) return static_cast<int>(allowed.size());
  return static_cast<int>(std::max(sysconf(_SC_NPROCESSORS_ONLN), 1L));
}

}  // namespace

std::set<int> AllowedCpus() {
  constexpr int kMostCpus = 1 << 16;
  std::set<int> allowed;
  for (int cpus = CPU_SETSIZE; cpus <= kMostCpus; cpus *= 2) {
    cpu_set_t* const set = CPU_ALLOC(static_cast<size_t>(cpus));
    const size_t size = CPU_ALLOC_SIZE(static_cast<size_t>(cpus));
    const bool done = sched_getaffinity(0, size, set) == 0;
    for (int cpu = 0; done && cpu < cpus; ++cpu) {
      if (CPU_ISSET_S(static_cast<size_t>(cpu), size, set)) allowed.insert(cpu);
    }
    CPU_FREE(set);
    if (done || errno != EINVAL) break;  // EINVAL: the kernel has more CPUs than the set has bits
  }
  return allowed;
}

absl::StatusOr<std::string> ReadRegularFile(const std::string& path, size_t max_bytes) {
  const Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));  // does not wait for a FIFO
  if (file.get() < 0) return FromErrno(errno, path);
  struct stat about {};
  if (fstat(file.get(), &about) != 0) return FromErrno(errno, path);
  if (!S_ISREG(about.st_mode)) return absl::FailedPreconditionError(path + ": not a regular file");
  std::string text;
  if (const int error = muster::ReadToEnd(file.get(), max_bytes, &text); error != 0) return FromErrno(error, path);
  if (text.size() <= max_bytes) return text;
  return absl::ResourceExhaustedError(absl::StrCat(path, ": more than ", max_bytes, " bytes"));
}

MachineProbe SystemProbe() { return {Run, ListDirectory, ReadSmallFile, UsableCpus}; }

}  // namespace muster::machine
