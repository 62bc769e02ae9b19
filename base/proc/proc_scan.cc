#include "base/proc/proc_scan.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <fstream>
#include <initializer_list>
#include <iterator>
#include <sstream>
#include <string_view>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/core/status_macros.h"
#include "base/io/owned_fd.h"

namespace muster {
namespace {

constexpr size_t kReadStep = 4096;  // bytes
// Fields of /proc/PID/stat, numbered as in proc(5); the state is the first after the name.
constexpr size_t kFirstAfterName = 3, kParent = 4, kGroup = 5, kSession = 6, kFlags = 9, kThreads = 20,
                 kStart = 22, kCodeStart = 26, kEnvironmentEnd = 51;
constexpr uint64_t kNotShown = 1;  // value of kCodeStart for processes that we may not inspect
constexpr uint64_t kFlagExiting = 0x4, kFlagForkedNoExec = 0x40, kFlagKernelThread = 0x200000;  // linux/sched.h
constexpr size_t kMaxFile = 8 * 1024 * 1024;  // bytes: an environment can be large, but not without bound

absl::StatusOr<std::string> ReadFile(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return absl::ErrnoToStatus(errno, path);
  std::string content;
  ssize_t got = 0;
  do {
    const size_t size = content.size();
    content.resize(size + kReadStep);
    got = read(fd, content.data() + size, kReadStep);
    content.resize(size + (got > 0 ? static_cast<size_t>(got) : 0));
  } while ((got > 0 && content.size() < kMaxFile) || (got < 0 && errno == EINTR));
  const int error = errno;
  close(fd);
  if (got < 0) return absl::ErrnoToStatus(error, path);
  return content;
}

std::string ProcPath(pid_t pid, const std::string& file) { return "/proc/" + std::to_string(pid) + "/" + file; }

std::string OfThread(pid_t thread, const char* file) { return "task/" + std::to_string(thread) + "/" + file; }

std::string LinkOf(pid_t pid, const std::string& link) {
  char target[4096];
  const ssize_t size = readlink(ProcPath(pid, link).c_str(), target, sizeof(target));
  return {target, size > 0 ? static_cast<size_t>(size) : 0};
}

std::optional<pid_t> ToPid(std::string_view text) {
  pid_t pid = 0;
  const auto result = std::from_chars(text.data(), text.data() + text.size(), pid);
  if (result.ec != std::errc() || result.ptr != text.data() + text.size() || pid <= 0) return std::nullopt;
  return pid;
}

absl::Status FindNumberedEntry(const char* folder, const std::function<bool(pid_t)>& is_such) {
  DIR* dir = opendir(folder);
  if (dir == nullptr) return absl::ErrnoToStatus(errno, folder);
  int error = 0;
  while (true) {
    errno = 0;  // distinguishes the end of the directory from an error
    const dirent* entry = readdir(dir);
    error = errno;
    if (entry == nullptr) break;
    if (const auto number = ToPid(entry->d_name); number && is_such(*number)) break;
  }
  closedir(dir);
  return error == 0 ? absl::OkStatus() : absl::ErrnoToStatus(error, folder);
}

absl::Status ForEachNumberedEntry(const char* folder, const std::function<void(pid_t)>& visit) {
  return FindNumberedEntry(folder, [&visit](pid_t number) {
    visit(number);
    return false;
  });
}

// Whether one of these fields of /proc/PID/status, which are signal sets, contains the signal.
bool HasSignal(std::string_view status, std::initializer_list<const char*> fields, int signal) {
  const unsigned long long bit = 1ULL << (signal - 1);
  return std::any_of(fields.begin(), fields.end(), [&](const char* field) {
    const std::string start = std::string("\n") + field + ":\t";
    const size_t at = status.find(start);
    return at != std::string_view::npos &&
           (std::strtoull(status.data() + at + start.size(), nullptr, 16) & bit) != 0;
  });
}

bool KillPending(const std::string& status_path) {
  const auto status = ReadFile(status_path);
  return status.ok() && HasSignal(*status, {"SigPnd", "ShdPnd"}, SIGKILL);
}

// A program may end its first thread and continue with others: takes the state from one of those, which also has
// the process's memory. False: not all threads could be read now.
bool TakeStateOfOtherThread(ProcessInfo* process) {
  const pid_t pid = process->pid;
  bool readable = true;
  const absl::Status listed = ForEachNumberedEntry(ProcPath(pid, "task").c_str(), [&](pid_t thread) {
    if (thread == pid || !process->ended()) return;
    const auto stat = ReadFile(ProcPath(pid, OfThread(thread, "stat")));
    if (!stat.ok() && !absl::IsNotFound(stat.status())) readable = false;
    const auto info = stat.ok() ? ParseProcess(thread, *stat) : std::nullopt;
    if (!info || info->ended()) return;
    process->thread = thread;
    process->state = info->state;
    process->exiting = info->exiting;
  });
  return readable && (listed.ok() || absl::IsNotFound(listed));
}

// Kernels other than Linux (gVisor) leave fields of /proc/PID/stat zero, so that every process would seem to be in
// an exec. Our own process, which is not, shows it.
bool KernelShowsExec() {
  static const bool tells = [] {
    const auto stat = ReadFile(ProcPath(getpid(), "stat"));
    const auto self = stat.ok() ? ParseProcess(getpid(), *stat) : std::nullopt;
    return self && !self->in_exec;
  }();
  return tells;
}

// A kernel without CONFIG_PROC_CHILDREN lacks these files; then all of /proc is read instead.
bool HasChildrenFiles() {
  static const bool has = access("/proc/thread-self/children", R_OK) == 0;
  return has;
}

// What follows the name, which may itself have any bytes, in a stat file of a process or thread.
std::string AfterName(const absl::StatusOr<std::string>& stat) {
  const size_t name_end = stat.ok() ? stat->rfind(')') : std::string::npos;
  return name_end == std::string::npos ? "" : stat->substr(name_end + 1);
}

absl::Duration ProcessorTimeIn(const std::string& after_name) {
  constexpr int kBeforeUserTime = 11;  // fields between the name and utime; stime follows
  std::istringstream fields(after_name);
  std::string skipped;
  for (int i = 0; i < kBeforeUserTime; ++i) fields >> skipped;
  int64_t user = 0, system = 0;
  fields >> user >> system;
  static const auto ticks_per_second = static_cast<double>(sysconf(_SC_CLK_TCK));
  return absl::Seconds(static_cast<double>(user + system) / ticks_per_second);
}

}  // namespace

std::optional<ProcessInfo> ParseProcess(pid_t pid, std::string_view stat) {
  // The name may contain spaces and parentheses: the last ")" ends it.
  const size_t open = stat.find('(');
  const size_t shut = stat.rfind(')');
  if (open == std::string_view::npos || shut == std::string_view::npos || shut < open) return std::nullopt;
  const std::vector<std::string> fields =
      absl::StrSplit(AsAbsl(stat.substr(shut + 1)), absl::ByAnyChar(" \n"), absl::SkipEmpty());
  if (fields.size() <= kStart - kFirstAfterName) return std::nullopt;
  const auto number = [&](size_t field, auto* value) {
    return field - kFirstAfterName < fields.size() && absl::SimpleAtoi(fields[field - kFirstAfterName], value);
  };
  ProcessInfo info;
  info.pid = info.thread = pid;
  info.name = std::string(stat.substr(open + 1, shut - open - 1));
  info.state = fields[0][0];
  uint64_t flags = 0;
  if (!number(kParent, &info.parent) || !number(kGroup, &info.group) || !number(kSession, &info.session) ||
      !number(kFlags, &flags) || !number(kThreads, &info.threads) || !number(kStart, &info.start)) {
    return std::nullopt;
  }
  info.exiting = (flags & kFlagExiting) != 0;
  info.kernel_thread = (flags & kFlagKernelThread) != 0;
  info.forked = (flags & kFlagForkedNoExec) != 0;
  // An ending process has no environment either, but is in no exec.
  uint64_t code_start = 0, environment_end = 0;
  info.in_exec = !info.ended() && (flags & (kFlagExiting | kFlagKernelThread)) == 0 &&
                 number(kCodeStart, &code_start) && code_start != kNotShown &&
                 number(kEnvironmentEnd, &environment_end) && environment_end == 0;
  return info;
}

std::optional<ProcessInfo> ReadProcess(pid_t pid) {
  const auto stat = ReadFile(ProcPath(pid, "stat"));
  if (!stat.ok()) return std::nullopt;
  std::optional<ProcessInfo> info = ParseProcess(pid, *stat);
  if (!info) return std::nullopt;
  if (info->ended() && info->threads > 1 && !TakeStateOfOtherThread(&*info)) return std::nullopt;
  if (info->state == 'D') info->kill_pending = KillPending(ProcPath(pid, OfThread(info->thread, "status")));
  info->in_exec = info->in_exec && KernelShowsExec();
  return info;
}

bool IsThere(pid_t pid) { return kill(pid, 0) == 0 || errno != ESRCH; }

bool IsAlive(pid_t pid, uint64_t start) {
  const auto now = ReadProcess(pid);
  return now ? !now->ended() && now->start == start : IsThere(pid);
}

bool HasEndedSince(const ProcessInfo& seen) {
  const auto now = ReadProcess(seen.pid);
  return !now || now->start != seen.start || now->ended() || now->exiting;
}

bool HandlesSignal(pid_t pid, int signal) {
  const auto status = ReadFile(ProcPath(pid, "status"));
  if (!status.ok()) return false;
  // A process that starts another one blocks all signals for a moment, including SIGSEGV, and handles none of
  // them.
  const bool blocks = HasSignal(*status, {"SigBlk"}, signal) && !HasSignal(*status, {"SigBlk"}, SIGSEGV);
  return blocks || HasSignal(*status, {"SigCgt"}, signal);
}

bool TakesSignal(pid_t pid, int signal) {
  const auto status = ReadFile(ProcPath(pid, "status"));
  return status.ok() && HasSignal(*status, {"SigCgt"}, signal) && !HasSignal(*status, {"SigBlk"}, signal);
}

absl::Status ForEachProcess(const std::function<void(pid_t)>& visit) {
  return ForEachNumberedEntry("/proc", visit);
}

bool ProcHidesProcesses() {
  if (geteuid() == 0) return false;
  std::ifstream file("/proc/mounts");
  return ProcHidesProcesses(std::string(std::istreambuf_iterator<char>(file), {}));
}

bool ProcHidesProcesses(std::string_view mounts) {
  for (const absl::string_view line : absl::StrSplit(AsAbsl(mounts), '\n')) {
    const std::vector<absl::string_view> fields = absl::StrSplit(line, ' ');
    if (fields.size() < 4 || fields[1] != "/proc") continue;
    for (const absl::string_view option : absl::StrSplit(fields[3], ',')) {
      const bool shows = option == "hidepid=0" || option == "hidepid=off";
      if (absl::StartsWith(option, "hidepid=") && !shows) return true;
    }
  }
  return false;
}

std::string LookAtEachProcess(const std::function<void(pid_t, std::string* unclear)>& look) {
  std::vector<pid_t> again;
  const absl::Status listed = ForEachProcess([&](pid_t pid) {
    std::string unclear;
    look(pid, &unclear);
    if (!unclear.empty()) again.push_back(pid);
  });
  std::string unclear(AsStd(listed.message()));
  for (const pid_t pid : again) look(pid, &unclear);
  return unclear;
}

absl::StatusOr<std::vector<ProcessInfo>> Children(std::optional<pid_t> session) {
  std::vector<ProcessInfo> children;
  const pid_t self = getpid();
  const auto is_meant = [session](pid_t pid) { return !session || getsid(pid) == *session; };
  if (!HasChildrenFiles()) {
    RETURN_IF_ERROR(ForEachProcess([&](pid_t pid) {
      if (!is_meant(pid)) return;
      if (const auto info = ReadProcess(pid); info && info->parent == self) children.push_back(*info);
    }));
    return children;
  }
  const auto add = [&](pid_t pid) {
    if (!is_meant(pid)) return;
    // A child exists until we reap it, even if it cannot be read.
    ProcessInfo unreadable;
    unreadable.pid = pid;
    unreadable.parent = self;
    ProcessInfo info = ReadProcess(pid).value_or(unreadable);
    if (info.parent == self) children.push_back(std::move(info));
  };
  absl::Status readable;
  RETURN_IF_ERROR(ForEachNumberedEntry("/proc/self/task", [&](pid_t thread) {
    const auto list = ReadFile("/proc/self/task/" + std::to_string(thread) + "/children");
    if (!list.ok()) {
      if (!absl::IsNotFound(list.status())) readable.Update(list.status());  // NotFound: the thread has ended
      return;
    }
    std::string_view rest = *list;
    while (!rest.empty()) {
      const size_t space = rest.find(' ');
      if (const auto pid = ToPid(rest.substr(0, space))) add(*pid);
      if (space == std::string_view::npos) break;
      rest.remove_prefix(space + 1);
    }
  }));
  RETURN_IF_ERROR(readable);
  return children;
}

absl::StatusOr<std::string> StartEnvironment(pid_t pid, const std::string& name) {
  absl::StatusOr<std::string> block = ReadFile(ProcPath(pid, "environ"));
  if (block.ok() ? block->empty() : absl::IsNotFound(block.status())) {
    const auto info = ReadProcess(pid);
    if (info && info->in_exec) return absl::UnavailableError(Describe(*info) + " is in an exec");
    // Try again: an exec may have completed since; or the first thread has ended and another one has the
    // environment.
    if (info) block = ReadFile(ProcPath(pid, OfThread(info->thread, "environ")));
  }
  RETURN_IF_ERROR(block.status());
  const std::string wanted = name + "=";
  std::string_view rest = *block;
  while (!rest.empty()) {
    const size_t end = rest.find('\0');
    const std::string_view entry = rest.substr(0, end);
    if (entry.substr(0, wanted.size()) == wanted) return std::string(entry.substr(wanted.size()));
    if (end == std::string_view::npos) break;
    rest.remove_prefix(end + 1);
  }
  return absl::NotFoundError(wanted);
}

absl::Status SignalProcess(pid_t pid, uint64_t start, int signal) {
  const OwnedFd held(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  const int refused = held.valid() ? 0 : errno;
  const auto now = ReadProcess(pid);
  if (refused == ESRCH || !now || now->ended() || now->start != start) {
    return absl::NotFoundError("pid " + std::to_string(pid) + " has ended");
  }
  if (refused != 0) return absl::ErrnoToStatus(refused, "pidfd_open");
  if (syscall(SYS_pidfd_send_signal, held.get(), signal, nullptr, 0) == 0) return absl::OkStatus();
  return absl::ErrnoToStatus(errno, "pidfd_send_signal to pid " + std::to_string(pid));
}

absl::StatusOr<std::string> CommandLine(pid_t pid) { return ReadFile(ProcPath(pid, "cmdline")); }

std::string ProgramOf(pid_t pid) {
  const std::string path = LinkOf(pid, "exe");
  const std::string_view file = std::string_view(path).substr(path.rfind('/') + 1);
  return std::string(AsStd(absl::StripSuffix(AsAbsl(file), " (deleted)")));
}

bool HasDescriptor(pid_t pid, const std::function<bool(const std::string& target)>& is_such) {
  bool found = is_such(LinkOf(pid, "fd/0"));  // 0 is no number of a process
  if (found) return true;
  (void)FindNumberedEntry(ProcPath(pid, "fd").c_str(), [&](pid_t descriptor) {
    return found = is_such(LinkOf(pid, "fd/" + std::to_string(descriptor)));
  });
  return found;
}

std::string StandardInputOf(pid_t pid) { return LinkOf(pid, "fd/0"); }

std::optional<pid_t> FirstChild(pid_t pid) {
  const auto list = ReadFile(ProcPath(pid, OfThread(pid, "children")));
  return list.ok() ? ToPid(std::string_view(*list).substr(0, list->find(' '))) : std::nullopt;
}

uint64_t BytesWritten(pid_t pid) {
  constexpr std::string_view kField = "wchar: ";
  const auto io = ReadFile(ProcPath(pid, "io"));
  const size_t at = io.ok() ? io->find(kField) : std::string::npos;
  uint64_t bytes = 0;
  if (at != std::string::npos) std::from_chars(io->data() + at + kField.size(), io->data() + io->size(), bytes);
  return bytes;
}

absl::Duration ProcessorTime(pid_t pid) { return ProcessorTimeIn(AfterName(ReadFile(ProcPath(pid, "stat")))); }

std::optional<absl::Duration> ProcessorTimeOfSleeper(pid_t pid) {
  const std::string fields = AfterName(ReadFile(ProcPath(pid, OfThread(pid, "stat"))));
  if (!absl::StartsWith(fields, " S ")) return std::nullopt;
  return ProcessorTimeIn(fields);
}

SchedulerTimes ReadSchedulerTimes(pid_t pid) {
  const auto text = ReadFile(ProcPath(pid, "schedstat"));
  if (!text.ok()) return {};
  std::istringstream fields(*text);
  int64_t ran_ns = 0, waited_ns = 0;
  fields >> ran_ns >> waited_ns;
  return {absl::Nanoseconds(ran_ns), absl::Nanoseconds(waited_ns)};
}

std::string KernelFunction(pid_t pid) {
  const auto where = ReadFile(ProcPath(pid, "wchan"));
  return where.ok() && *where != "0" ? *where : "";
}

std::string Describe(const ProcessInfo& process) {
  std::string text = "pid " + std::to_string(process.pid) + " (" + process.name + ", state " + process.state;
  const std::string where = process.state == 'D' ? KernelFunction(process.pid) : "";
  return text + (where.empty() ? "" : " in " + where) + ")";
}

}  // namespace muster
