#include "agent/host/agent_door.h"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/console/log.h"
#include "base/core/status_macros.h"
#include "base/exit_codes.h"
#include "base/io/token_lines.h"
#include "base/text/text.h"

namespace muster::host {
namespace {

constexpr char kPart[] = "host";

void LogRefused(const std::string& why) {
  Log(Severity::kWarning, kPart, absl::StrCat("a sidecar was refused: ", why));
}

}  // namespace

AgentDoor::AgentDoor(EventLoop* loop, AgentSocket socket, Events events)
    : AgentLink(loop, std::move(events)), socket_(std::move(socket)) {}

AgentDoor::~AgentDoor() {
  loop()->Cancel(retry_);
  loop()->Unwatch(socket_.listener.get());
  while (!pending_.empty()) Drop(pending_.begin()->first);
  unlink(socket_.path.c_str());
}

void AgentDoor::Open() {
  loop()->Watch(socket_.listener.get(), EPOLLIN, [this](uint32_t) { Accept(); });
  if (!socket_.first.valid()) return;
  came_ = {std::move(socket_.first), socket_.accepted.sidecar_id()};
  events().on_came();
}

void AgentDoor::Accept() {
  OwnedFd connection(accept4(socket_.listener.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!connection.valid()) {
    if (errno == EAGAIN || errno == EINTR || errno == ECONNABORTED) return;
    Log(Severity::kWarning, kPart, absl::StrCat("a sidecar could not be admitted: ", std::strerror(errno)));
    loop()->Unwatch(socket_.listener.get());  // it would fire again at once
    retry_ = loop()->After(
        kAcceptRetry, [this] { loop()->Watch(socket_.listener.get(), EPOLLIN, [this](uint32_t) { Accept(); }); });
    return;
  }
  if (pending_.size() >= kMaxVisitors) return LogRefused("too many connections say nothing");
  const int fd = connection.get();
  Pending& visitor = pending_[fd];
  visitor.connection = std::move(connection);
  visitor.limit = loop()->After(kHelloLimit, [this, fd] {
    LogRefused(absl::StrCat("it said nothing for ", absl::FormatDuration(kHelloLimit)));
    Drop(fd);
  });
  loop()->Watch(fd, EPOLLIN, [this, fd](uint32_t) { Read(fd); });
}

void AgentDoor::Read(int fd) {
  const absl::StatusOr<bool> complete = pending_.at(fd).frame.Read(fd);
  if (!complete.ok()) {
    Log(Severity::kDebug, kPart, absl::StrCat("a visitor left: ", complete.status().message()));
    Drop(fd);
  } else if (*complete) {
    Hear(fd);
  }
}

void AgentDoor::Drop(int fd) {
  const auto visitor = pending_.find(fd);
  loop()->Cancel(visitor->second.limit);
  loop()->Unwatch(fd);
  pending_.erase(visitor);
}

void AgentDoor::Hear(int fd) {
  Pending& visitor = pending_.at(fd);
  if (visitor.hello) return HearProof(fd);
  absl::StatusOr<v1::AgentHello> hello = ParseHello(visitor.frame);
  if (!hello.ok()) return TurnAway(fd, hello.status());
  visitor.hello = *std::move(hello);
  visitor.hello_bytes = visitor.frame.payload();
  if (socket_.tokens.empty()) return Judge(fd);
  Challenge(&visitor);
}

void AgentDoor::Challenge(Pending* visitor) {
  visitor->proof = std::make_unique<TokenProof>(visitor->hello_bytes, socket_.tokens);
  visitor->frame = IncomingFrame();
  (void)SendFrame(visitor->connection.get(), visitor->proof->Challenge());  // it has left: its end is read next
}

// After a change of the file on one side only, the other one has not read it yet.
void AgentDoor::HearProof(int fd) {
  Pending& visitor = pending_.at(fd);
  if (visitor.proof->IsAnsweredBy(visitor.frame)) return Judge(fd);
  if (TakeNewTokens()) return Challenge(&visitor);
  TurnAway(fd, HasNoToken());
}

void AgentDoor::TurnAway(int fd, const absl::Status& why) {
  const OwnedFd connection = std::move(pending_.at(fd).connection);
  Drop(fd);
  RefuseHello(connection.get(), why);
}

void AgentDoor::Judge(int fd) {
  const v1::AgentHello hello = *std::move(pending_.at(fd).hello);
  OwnedFd connection = std::move(pending_.at(fd).connection);
  Drop(fd);
  if (const std::string why = WhyRefused(hello); !why.empty()) {
    LogRefused(why);
    const bool told = !hello.problem().empty();
    Refuse(connection.get(), told ? hello.exit_code() : kExitRefused, why);
    return;
  }
  came_ = {std::move(connection), hello.sidecar_id()};
  events().on_came();
}

// True: the file has other tokens than before.
bool AgentDoor::TakeNewTokens() {
  if (socket_.token_file.empty()) return false;
  const std::string newest = TokenLines(socket_.token_file);
  if (newest.empty() || newest == socket_.tokens) return false;
  socket_.tokens = newest;
  Log(Severity::kInfo, kPart, absl::StrCat("the token file ", socket_.token_file, " has changed"));
  return true;
}

std::string AgentDoor::WhyRefused(const v1::AgentHello& hello) const {
  if (std::find(superseded_.begin(), superseded_.end(), hello.sidecar_id()) != superseded_.end()) {
    return "another sidecar has come to this host since; give each host a sidecar of its own";
  }
  if (!hello.problem().empty()) return absl::StrCat("its options are wrong: ", hello.problem());
  const std::string difference = DifferenceOf(socket_.accepted, hello);
  if (difference.empty()) return "";
  return absl::StrCat("its configuration is not that with which this host began: ", difference,
                      "; restart the training container, too");
}

void AgentDoor::NoteSidecar(const std::string& id) {
  const std::string before = std::exchange(newest_, id);
  if (before == id || before.empty()) return;
  superseded_.push_back(before);
  if (superseded_.size() > kMaxSuperseded) superseded_.pop_front();
}

void AgentDoor::Start(uint64_t number) {
  Close();
  Came came = std::exchange(came_, {});
  const absl::Status welcome = Welcome(came.connection.get(), socket_.welcome);
  if (!welcome.ok()) {
    Log(Severity::kWarning, kPart, absl::StrCat("agent ", number, " from the sidecar: ", welcome.message()));
    loop()->Post([this, number] { OnClosed(number); });
    return;
  }
  NoteSidecar(came.sidecar_id);
  Attach(number, came.connection.Release());
}

}  // namespace muster::host
