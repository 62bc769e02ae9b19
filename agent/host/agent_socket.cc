#include "agent/host/agent_socket.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/console/log.h"
#include "base/exit_codes.h"
#include "base/io/event_loop.h"
#include "base/io/unix_socket.h"
#include "base/mask_secrets.h"
#include "base/sidecar.h"
#include "base/status_macros.h"
#include "base/text.h"

namespace muster::host {
namespace {

constexpr char kPart[] = "host";
constexpr int kBacklog = 16;
constexpr size_t kMaxShownBytes = 200;  // of a command line or variable in a message
constexpr pid_t kFirstProcess = 1;

absl::Status Fault(const std::string& path, absl::string_view why) {
  return absl::FailedPreconditionError(absl::StrCat("--socket ", path, ": ", why));
}

absl::Status Remove(const std::string& path) {
  if (unlink(path.c_str()) == 0 || errno == ENOENT) return absl::OkStatus();
  return absl::ErrnoToStatus(errno, absl::StrCat("removing ", path));
}

// Removes a socket that no process listens on any more.
absl::Status RemoveStale(const std::string& path) {
  struct stat info {};
  if (lstat(path.c_str(), &info) != 0) return absl::OkStatus();
  if (!S_ISSOCK(info.st_mode)) return absl::AlreadyExistsError("there is a file that is no socket");
  const absl::StatusOr<OwnedFd> answer = ConnectToUnixSocket(path);
  // ResourceExhausted: it listens, and many wait there.
  if (answer.ok() || absl::IsResourceExhausted(answer.status())) {
    return absl::AlreadyExistsError("another muster host listens there; give each its own socket");
  }
  if (!absl::IsUnavailable(answer.status())) return answer.status();
  return Remove(path);
}

std::string ShownWords(const v1::AgentHello& hello) {
  const std::string text = absl::StrJoin(MaskArguments({hello.arguments().begin(), hello.arguments().end()}), " ");
  return text.empty() ? "empty" : OneLine(CutUtf8(text, kMaxShownBytes));
}

bool SameVariable(const v1::AgentHello& a, const v1::AgentHello& b, const std::string& name) {
  const auto in_a = a.variables().find(name), in_b = b.variables().find(name);
  if (in_a == a.variables().end() || in_b == b.variables().end()) return false;
  return in_a->second == in_b->second;
}

std::string ShownVariable(const v1::AgentHello& hello, const std::string& name) {
  const auto found = hello.variables().find(name);
  return found == hello.variables().end() ? "not set"
                                          : OneLine(CutUtf8(MaskValue(name, found->second), kMaxShownBytes));
}

}  // namespace

absl::StatusOr<OwnedFd> ListenForAgent(const std::string& path) {
  absl::Status free = UnixAddress(path).status();
  if (free.ok()) free = RemoveStale(path);
  if (free.ok()) free = Remove(ResultPath(path));
  if (!free.ok()) return Fault(path, free.message());
  absl::StatusOr<OwnedFd> listener = ListenOnUnixSocket(path, kSocketMode, kBacklog);
  if (!listener.ok()) return Fault(path, listener.status().message());
  return listener;
}

absl::StatusOr<v1::AgentHello> ParseHello(const IncomingFrame& frame) {
  v1::AgentHello hello;
  if (!hello.ParseFromArray(frame.payload().data(), static_cast<int>(frame.payload().size()))) {
    return absl::InvalidArgumentError("its first message cannot be parsed");
  }
  if (hello.protocol() == kSplitProtocol) return hello;
  return absl::InvalidArgumentError(absl::StrCat("it speaks protocol ", hello.protocol(), ", this host protocol ",
                                                 kSplitProtocol,
                                                 "; use one version of muster in both containers"));
}

absl::StatusOr<Visitor> AwaitFirstAgent(int listener, absl::Duration limit) {
  const BootTime until = EventLoop::Now() + limit;
  while (EventLoop::Now() < until) {
    pollfd polled{listener, POLLIN, 0};
    poll(&polled, 1, static_cast<int>(absl::ToInt64Milliseconds(until - EventLoop::Now())) + 1);
    OwnedFd connection(accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!connection.valid()) {
      const bool short_of_descriptors = errno != EAGAIN && errno != EINTR && errno != ECONNABORTED;
      if (short_of_descriptors) poll(nullptr, 0, static_cast<int>(absl::ToInt64Milliseconds(kAcceptRetry)));
      continue;
    }
    IncomingFrame frame;
    absl::Status heard = AwaitFrame(connection.get(), kHelloLimit, &frame);
    if (heard.ok()) {
      absl::StatusOr<v1::AgentHello> hello = ParseHello(frame);
      if (hello.ok()) return Visitor{std::move(connection), *std::move(hello)};
      heard = hello.status();
      Refuse(connection.get(), kExitRefused, std::string(AsStd(heard.message())));
    }
    Log(Severity::kWarning, kPart, absl::StrCat("a sidecar was refused: ", heard.message()));
  }
  return absl::DeadlineExceededError(absl::StrCat("no sidecar came within ", absl::FormatDuration(limit)));
}

std::string DifferenceOf(const v1::AgentHello& first, const v1::AgentHello& now) {
  const std::vector<std::string> before(first.arguments().begin(), first.arguments().end());
  const std::vector<std::string> after(now.arguments().begin(), now.arguments().end());
  if (before != after) {
    return absl::StrCat("the command line was ", ShownWords(first), " and is ", ShownWords(now));
  }
  std::map<std::string, std::string> all(first.variables().begin(), first.variables().end());
  all.insert(now.variables().begin(), now.variables().end());
  for (const auto& [name, value] : all) {
    if (SameVariable(first, now, name)) continue;
    return absl::StrCat("the variable ", name, " was ", ShownVariable(first, name), " and is ",
                        ShownVariable(now, name));
  }
  return "";
}

void Refuse(int connection, int exit_code, const std::string& why) {
  v1::HostHello answer;
  answer.set_refused(why);
  answer.set_exit_code(exit_code);
  (void)SendFrame(connection, answer);  // it has left: then it needs no answer
}

absl::Status Welcome(int connection, const v1::HostHello& answer) {
  const OwnedFd first(static_cast<int>(syscall(SYS_pidfd_open, kFirstProcess, 0)));
  if (!first.valid()) {
    Log(Severity::kWarning, kPart,
        absl::StrCat("the sidecar will not see the end of this container, only the end of its lease: pidfd_open: ",
                     std::strerror(errno)));
  }
  return SendFrame(connection, answer, first.get());
}

}  // namespace muster::host
