// An agent's connection to the coordinator: statuses go up, directives come down.
#pragma once

#include <functional>
#include <string>

#include "muster/v1/rendezvous.pb.h"
#include "rendezvous/gate/dialer.h"

namespace muster::rendezvous {

// All callbacks run on the loop thread, never inside a call to the session.
struct SessionEvents {
  // A coordinator has accepted this agent. local_address: this machine's IP address towards it; empty: unknown.
  std::function<void(const std::string& local_address)> on_connected;
  std::function<void(const v1::Directive& directive)> on_directive;
  // The attempt failed or the connection is lost. why: for people, includes the address. refused: the exit code if
  // the coordinator refused this node for good, else 0. Not called after Disconnect().
  std::function<void(const std::string& why, int refused)> on_disconnected;
  // After Disconnect(): everything sent has reached the coordinator, and the stream has ended.
  std::function<void()> on_closed;
};

// Lives on the loop thread.
class Session {
 public:
  virtual ~Session() = default;

  // Starts one attempt, which ends with on_connected or on_disconnected. Abandons an earlier one.
  virtual void Connect() = 0;

  // While a status is being written, only the newest further one is kept. Dropped if not connected.
  virtual void Send(const v1::AgentStatus& status) = 0;

  // Ends the session in order: what was sent before still arrives.
  virtual void Disconnect() = 0;

  // What the newest attempt that did not reach the coordinator has shown. To be asked in on_disconnected.
  virtual OwnPort own_port() const { return OwnPort::kNone; }
};

}  // namespace muster::rendezvous
