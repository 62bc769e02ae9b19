#include "agent/host/agent_child.h"

#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "base/console/log.h"
#include "base/proc/marker.h"

namespace muster::host {
namespace {

constexpr char kPart[] = "host";

EnvironmentMap WithoutMarker(EnvironmentMap environment) {
  environment.erase(kMarkerVariable);  // an agent outlives a dead host to clean up, so it is no orphan of it
  return environment;
}

}  // namespace

AgentChild::AgentChild(EventLoop* loop, Spawner* spawner, std::vector<std::string> arguments,
                       EnvironmentMap environment, Events events)
    : loop_(loop),
      spawner_(spawner),
      arguments_({"agent", "--fd", "3"}),
      environment_(WithoutMarker(std::move(environment))),
      events_(std::move(events)) {
  arguments_.insert(arguments_.end(), arguments.begin(), arguments.end());
}

void AgentChild::Start(uint64_t number) {
  Close();
  number_ = number;
  int pair[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) {
    events_.on_failed(number, absl::ErrnoToStatus(errno, "making a socket pair"));
    return;
  }
  const auto pid = spawner_->SpawnAgent(arguments_, environment_, pair[1],
                                        [this, number](const Ending& ending) { OnExit(number, ending); });
  close(pair[1]);
  if (!pid.ok()) {
    close(pair[0]);
    events_.on_failed(number, pid.status());
    return;
  }
  pid_ = *pid;
  link_ = std::make_unique<FramedLink>(
      loop_, pair[0], [this, number](std::string_view payload) { OnFrame(number, payload); },
      [this, number](const std::string& why) {
        Log(Severity::kDebug, kPart, "link to agent " + std::to_string(number) + ": " + why);
        OnClosed(number);
      });
}

void AgentChild::Close() {
  if (pid_ != 0) spawner_->Kill(pid_, SIGKILL);
  pid_ = 0;
  link_.reset();
}

void AgentChild::Send(const v1::HostStatus& status) {
  if (link_) link_->Send(status);
}

void AgentChild::OnFrame(uint64_t number, std::string_view payload) {
  v1::HostDirective directive;
  if (!directive.ParseFromArray(payload.data(), static_cast<int>(payload.size()))) {
    Log(Severity::kError, kPart,
        "agent " + std::to_string(number) + " sent a message that cannot be parsed: closing its link");
    OnClosed(number);
    return;
  }
  events_.on_directive(directive);
}

void AgentChild::OnExit(uint64_t number, const Ending& ending) {
  Log(Severity::kDebug, kPart,
      "agent " + std::to_string(number) + (ending.by_signal ? " was killed by signal " : " exited with code ") +
          std::to_string(ending.number));
  if (number != number_) return;
  pid_ = 0;
  OnClosed(number);
}

void AgentChild::OnClosed(uint64_t number) {
  if (number == number_) link_.reset();
  events_.on_closed(number);
}

}  // namespace muster::host
