// An agent's connection to the coordinator: statuses up, directives down, for as long as it holds.
#pragma once

#include <functional>
#include <string>

#include "muster/v1/rendezvous.pb.h"

namespace muster::rendezvous {

// All are called on the loop thread and never from inside a call to the session.
struct SessionEvents {
  // A coordinator has taken us. local_address: this machine's IP address towards it; empty if unknown.
  std::function<void(const std::string& local_address)> on_connected;
  std::function<void(const v1::Directive& directive)> on_directive;
  // The attempt failed or the connection is lost. why: for people, with the address in it. refused: an exit code
  // if we were turned away for good, else 0. Not after Disconnect().
  std::function<void(const std::string& why, int refused)> on_disconnected;
  // After Disconnect(): everything sent is with the coordinator, and the stream is ended.
  std::function<void()> on_closed;
};

// Lives on the loop thread.
class Session {
 public:
  virtual ~Session() = default;

  // One attempt, which ends with on_connected or on_disconnected. An earlier one is given up.
  virtual void Connect() = 0;

  // While a status is on its way the newest one waits; those between are never sent. Not connected: dropped.
  virtual void Send(const v1::AgentStatus& status) = 0;

  // Ends the session in order: what was sent arrives.
  virtual void Disconnect() = 0;
};

}  // namespace muster::rendezvous
