#include "agent/host/agent_child.h"

#include <fcntl.h>
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

OwnedFd TcpSocket(int family) {
  const OwnedFd fd(socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  return OwnedFd(fcntl(fd.get(), F_DUPFD_CLOEXEC, kLowestMoreFd));  // invalid: the machine lacks the family
}

// Names the sockets in the agent's arguments, by the descriptors that they will be there.
std::vector<OwnedFd> SocketsFor(std::vector<std::string>* arguments) {
  std::vector<OwnedFd> sockets;
  for (const auto& [family, word] : {std::pair(AF_INET, "--ipv4"), std::pair(AF_INET6, "--ipv6")}) {
    OwnedFd fd = TcpSocket(family);
    if (!fd.valid()) continue;
    arguments->insert(arguments->end(), {word, std::to_string(kFirstMoreFd + static_cast<int>(sockets.size()))});
    sockets.push_back(std::move(fd));
  }
  return sockets;
}

}  // namespace

AgentChild::AgentChild(EventLoop* loop, Spawner* spawner, std::vector<std::string> arguments,
                       EnvironmentMap environment, Events events)
    : AgentLink(loop, std::move(events)),
      spawner_(spawner),
      arguments_({"agent", "--fd", "3"}),
      environment_(WithoutMarker(std::move(environment))),
      sockets_(SocketsFor(&arguments_)) {
  arguments_.insert(arguments_.end(), arguments.begin(), arguments.end());
}

void AgentChild::Start(uint64_t number) {
  Close();
  int pair[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) {
    events().on_failed(number, absl::ErrnoToStatus(errno, "making a socket pair"));
    return;
  }
  const auto on_exit = [this, number, alive = std::weak_ptr<bool>(alive_)](const Ending& ending) {
    if (!alive.expired()) OnExit(number, ending);
  };
  std::vector<int> sockets;
  for (const OwnedFd& fd : sockets_) sockets.push_back(fd.get());
  const auto pid = spawner_->SpawnAgent(arguments_, environment_, pair[1], sockets, on_exit);
  close(pair[1]);
  if (!pid.ok()) {
    close(pair[0]);
    events().on_failed(number, pid.status());
    return;
  }
  pid_ = *pid;
  Attach(number, pair[0]);
}

void AgentChild::Close() {
  if (pid_ != 0) spawner_->Kill(pid_, SIGKILL);
  pid_ = 0;
  AgentLink::Close();
}

void AgentChild::OnExit(uint64_t exited, const Ending& ending) {
  Log(Severity::kDebug, kPart,
      "agent " + std::to_string(exited) + (ending.by_signal ? " was killed by signal " : " exited with code ") +
          std::to_string(ending.number));
  if (exited != number()) return;
  pid_ = 0;
  OnClosed(exited);
}

}  // namespace muster::host
