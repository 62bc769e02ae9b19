// How a container is asked for its health: the first main process of muster in it listens on an abstract unix
// socket, whose name is that of its mount namespace, and tells whoever connects its state in one line of JSON. So
// `muster health`, which a kubelet or Docker executes inside the container, finds the right process without a file
// system, a port or a setting. Containers of one pod share the network, and with it such sockets; their mount
// namespaces differ.
#pragma once

#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/io/event_loop.h"
#include "base/io/owned_fd.h"

namespace muster {

struct Health {
  std::string state;   // one or a few words, for people
  bool ready = false;  // workers of a round run
};

// Only in a container, that is in a PID namespace of its own: elsewhere several jobs share a mount namespace.
// Invalid: not in a container, or another process listens already. Never blocks.
OwnedFd ListenForHealth();

// Answers everyone who waits. Peers of another user than root and this one get nothing. Never blocks.
void AnswerHealth(int listener, const Health& health);

// Asks the main process of this container. Unavailable: nobody listens; DeadlineExceeded: no answer in time, as
// from a process that is stopped or hangs; PermissionDenied: another user's process listens.
absl::StatusOr<Health> AskHealth(absl::Duration limit);

// Answers on a loop. Lives on its thread.
class HealthDoor {
 public:
  HealthDoor(EventLoop* loop, std::function<Health()> health) : loop_(loop), health_(std::move(health)) {}
  ~HealthDoor() { loop_->Unwatch(listener_.get()); }
  HealthDoor(const HealthDoor&) = delete;
  HealthDoor& operator=(const HealthDoor&) = delete;

  // listener: from ListenForHealth, perhaps by an earlier phase of this process. Does nothing if it is invalid.
  void Open(OwnedFd listener);

 private:
  EventLoop* const loop_;
  const std::function<Health()> health_;
  OwnedFd listener_;
};

}  // namespace muster
