#include "agent/host/agent_socket.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/console/log.h"
#include "base/core/status_macros.h"
#include "base/crypto/sidecar_proof.h"
#include "base/exit_codes.h"
#include "base/io/event_loop.h"
#include "base/io/health.h"
#include "base/io/unix_socket.h"
#include "base/text/mask_secrets.h"
#include "base/text/text.h"
#include "base/wire/sidecar.h"

namespace muster::host {
namespace {

constexpr char kPart[] = "host";
constexpr int kBacklog = 16;
constexpr size_t kMaxShownBytes = 200;  // of a command line or variable in a message
constexpr pid_t kFirstProcess = 1;
const Health kWaitingHost{"host, waiting for its sidecar", false};
constexpr absl::Duration kLockLimit = absl::Seconds(1);  // whoever holds it makes one socket
constexpr int kLockPollMs = 5;

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

// Held from the look at the path until the socket listens, so that of two hosts that start at once none removes
// the other's. Invalid: the folder cannot be locked; then the look alone must do.
OwnedFd LockFolderOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  const std::string folder = slash == std::string::npos ? "." : path.substr(0, slash + 1);
  OwnedFd lock(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  const BootTime until = EventLoop::Now() + kLockLimit;
  while (lock.valid() && flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK || EventLoop::Now() >= until) return {};
    poll(nullptr, 0, kLockPollMs);
  }
  return lock;
}

// A part of a command line: words [begin, end).
std::string ShownWords(const std::vector<std::string>& words, size_t begin, size_t end) {
  const std::vector<std::string> masked = MaskArguments(words);
  const auto at = [&masked](size_t i) { return masked.begin() + static_cast<std::ptrdiff_t>(i); };
  const std::string text = absl::StrJoin(at(begin), at(end), " ");
  return text.empty() ? "nothing" : OneLine(CutUtf8(text, kMaxShownBytes));
}

// The part in which two command lines differ, with the option whose value it is.
std::string DifferenceOfWords(const std::vector<std::string>& before, const std::vector<std::string>& after) {
  const size_t shorter = std::min(before.size(), after.size());
  size_t begin = 0, common = 0;
  while (begin < shorter && before[begin] == after[begin]) ++begin;
  while (common < shorter - begin && before[before.size() - 1 - common] == after[after.size() - 1 - common])
    ++common;
  const auto is_value = [begin](const std::vector<std::string>& words) {
    return begin < words.size() && !words[begin].starts_with("-");
  };
  if (begin > 0 && before[begin - 1].starts_with("-") && (is_value(before) || is_value(after))) --begin;
  return absl::StrCat("the command line had ", ShownWords(before, begin, before.size() - common), " and has ",
                      ShownWords(after, begin, after.size() - common));
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

// Blocks until this visitor has said what it wants and shown what it must, or has not.
absl::StatusOr<v1::AgentHello> HearOut(int connection, const std::string& tokens, const Meanwhile& meanwhile) {
  IncomingFrame frame;
  RETURN_IF_ERROR(AwaitFrame(connection, kHelloLimit, &frame, meanwhile));
  ASSIGN_OR_RETURN(v1::AgentHello hello, ParseHello(frame));
  if (tokens.empty()) return hello;
  const TokenProof proof(std::string(frame.payload()), tokens);
  RETURN_IF_ERROR(SendFrame(connection, proof.Challenge()));
  IncomingFrame answer;
  RETURN_IF_ERROR(AwaitFrame(connection, kHelloLimit, &answer, meanwhile));
  if (!proof.IsAnsweredBy(answer)) return HasNoToken();
  return hello;
}

}  // namespace

absl::StatusOr<OwnedFd> ListenForAgent(const std::string& path) {
  absl::Status free = UnixAddress(path).status();
  const OwnedFd lock = LockFolderOf(path);
  if (free.ok()) free = RemoveStale(path);
  if (free.ok()) free = Remove(ResultPath(path));
  if (!free.ok()) return Fault(path, free.message());
  absl::StatusOr<OwnedFd> listener = ListenOnUnixSocket(path, SocketModeAt(path), kBacklog);
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

absl::Status HasNoToken() {
  return absl::PermissionDeniedError(
      "it does not have the token of this host; give both containers the same --token-file");
}

TokenProof::TokenProof(std::string hello, const std::string& tokens)
    : hello_(std::move(hello)), nonce_(NewNonce()), tokens_(absl::StrSplit(tokens, '\n')) {}

v1::HostHello TokenProof::Challenge() const {
  v1::HostHello answer;
  answer.mutable_challenge()->set_nonce(nonce_);
  for (const std::string& token : tokens_) {
    answer.mutable_challenge()->add_proofs(ProofOfHost(token, hello_, nonce_));
  }
  return answer;
}

bool TokenProof::IsAnsweredBy(const IncomingFrame& frame) const {
  v1::SidecarProof answer;
  const bool parsed = answer.ParseFromArray(frame.payload().data(), static_cast<int>(frame.payload().size()));
  return parsed && std::any_of(tokens_.begin(), tokens_.end(), [&](const std::string& token) {
           return SameProof(answer.proof(), ProofOfSidecar(token, hello_, nonce_));
         });
}

absl::StatusOr<Visitor> AwaitFirstAgent(int listener, int health, const std::string& tokens,
                                        absl::Duration limit) {
  const Meanwhile meanwhile{health, [health] { AnswerHealth(health, kWaitingHost); }};
  const BootTime until = EventLoop::Now() + limit;
  while (EventLoop::Now() < until) {
    pollfd polled[] = {{listener, POLLIN, 0}, {health, POLLIN, 0}};  // a negative descriptor is left out
    poll(polled, 2, static_cast<int>(absl::ToInt64Milliseconds(until - EventLoop::Now())) + 1);
    if (polled[1].revents != 0) meanwhile.act();
    OwnedFd connection(accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!connection.valid()) {
      const bool short_of_descriptors = errno != EAGAIN && errno != EINTR && errno != ECONNABORTED;
      if (short_of_descriptors) poll(nullptr, 0, static_cast<int>(absl::ToInt64Milliseconds(kAcceptRetry)));
      continue;
    }
    absl::StatusOr<v1::AgentHello> hello = HearOut(connection.get(), tokens, meanwhile);
    if (hello.ok()) return Visitor{std::move(connection), *std::move(hello)};
    // Another host that looks whether this one lives says nothing.
    const bool said_nothing = absl::IsUnavailable(hello.status());
    if (said_nothing) {
      Log(Severity::kDebug, kPart, absl::StrCat("a visitor left: ", hello.status().message()));
    } else {
      RefuseHello(connection.get(), hello.status());
    }
  }
  return absl::DeadlineExceededError(absl::StrCat("no sidecar came within ", absl::FormatDuration(limit)));
}

std::string DifferenceOf(const v1::AgentHello& first, const v1::AgentHello& now) {
  const std::vector<std::string> before(first.arguments().begin(), first.arguments().end());
  const std::vector<std::string> after(now.arguments().begin(), now.arguments().end());
  if (before != after) return DifferenceOfWords(before, after);
  std::map<std::string, std::string> all(first.variables().begin(), first.variables().end());
  all.insert(now.variables().begin(), now.variables().end());
  for (const auto& [name, value] : all) {
    if (SameVariable(first, now, name)) continue;
    return absl::StrCat("the variable ", name, " was ", ShownVariable(first, name), " and is ",
                        ShownVariable(now, name));
  }
  return "";
}

void RefuseHello(int connection, const absl::Status& why) {
  Refuse(connection, kExitRefused, std::string(AsStd(why.message())));
  Log(Severity::kWarning, kPart, absl::StrCat("a sidecar was refused: ", why.message()));
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
