#include "base/io/health.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/core/status_macros.h"
#include "base/core/time.h"
#include "base/io/local_door.h"
#include "base/io/own_namespace.h"
#include "base/text/bounded_json.h"
#include "base/text/text.h"
#include "nlohmann/json.hpp"

namespace muster {
namespace {

constexpr int kMaxAnswersAtOnce = 16;
constexpr size_t kMaxAnswerBytes = 4096;

absl::StatusOr<std::string> NameHere() {
  const std::string space = OwnNamespace("mnt");
  if (space.empty()) return absl::InternalError("cannot read /proc/self/ns/mnt");
  return absl::StrCat("muster/health/", space);
}

absl::StatusOr<OwnedFd> Knock() {
  ASSIGN_OR_RETURN(const std::string name, NameHere());
  absl::StatusOr<OwnedFd> fd = KnockAtDoor(name);
  if (absl::IsUnavailable(fd.status()))
    return absl::UnavailableError("no muster answers in this container: is it running here, and as this user?");
  if (absl::IsResourceExhausted(fd.status()))
    return absl::DeadlineExceededError(absl::StrCat("muster does not answer: ", fd.status().message()));
  return fd;
}

std::string Written(const Health& health) {
  return nlohmann::ordered_json{{"state", health.state}, {"ready", health.ready}}.dump() + "\n";
}

absl::StatusOr<Health> Parsed(const std::string& answer) {
  ASSIGN_OR_RETURN(const nlohmann::json json, ParseBoundedJson(answer, {}));
  const auto member = [&json](const char* name) {
    return json.is_object() ? json.value(name, nlohmann::json()) : nlohmann::json();
  };
  const nlohmann::json state = member("state"), ready = member("ready");
  if (!state.is_string() || !ready.is_boolean()) return absl::InvalidArgumentError("the answer is not understood");
  return Health{OneLine(state.get<std::string>()), ready.get<bool>()};  // a terminal shows it
}

absl::Status Await(int fd, BootTime until) {
  const int64_t left = std::max<int64_t>(0, absl::ToInt64Milliseconds(until - EventLoop::Now()));
  pollfd polled{fd, POLLIN, 0};
  if (poll(&polled, 1, static_cast<int>(left)) > 0) return absl::OkStatus();
  return absl::DeadlineExceededError("muster does not answer: it is stopped, or hangs");
}

}  // namespace

OwnedFd ListenForHealth() {
  if (!IsInContainer()) return {};
  const absl::StatusOr<std::string> name = NameHere();
  if (!name.ok()) return {};
  absl::StatusOr<OwnedFd> listener = ListenAtDoor(*name);
  return listener.ok() ? *std::move(listener) : OwnedFd();
}

void AnswerHealth(int listener, const Health& health) {
  const std::string answer = Written(health);
  for (int i = 0; i < kMaxAnswersAtOnce; ++i) {
    const OwnedFd visitor(accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!visitor.valid()) return;
    if (!IsOursOrRoots(visitor.get())) continue;
    // A new socket's buffer takes it whole. A visitor that has gone already needs no answer.
    (void)send(visitor.get(), answer.data(), answer.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  }
}

absl::StatusOr<Health> AskHealth(absl::Duration limit) {
  const BootTime until = EventLoop::Now() + limit;
  ASSIGN_OR_RETURN(const OwnedFd fd, Knock());
  std::string answer;
  while (answer.size() < kMaxAnswerBytes) {
    RETURN_IF_ERROR(Await(fd.get(), until));
    char bytes[512];
    const ssize_t got = recv(fd.get(), bytes, sizeof(bytes), 0);
    if (got < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (got < 0) return absl::UnavailableError(absl::StrCat("muster has ended: ", std::strerror(errno)));
    if (got == 0) break;
    answer.append(bytes, static_cast<size_t>(got));
  }
  if (answer.empty())
    return absl::PermissionDeniedError("muster tells its state only to root and to its own user");
  return Parsed(answer);
}

void HealthDoor::Open(OwnedFd listener) {
  if (!listener.valid()) return;
  listener_ = std::move(listener);
  loop_->Watch(listener_.get(), EPOLLIN, [this](uint32_t) { AnswerHealth(listener_.get(), health_()); });
}

}  // namespace muster
