// The session of an agent whose coordinator runs in the same process, without sockets. Every message goes through
// the loop, so that neither core is ever called from inside the other.
#pragma once

#include <memory>
#include <string>

#include "base/io/event_loop.h"
#include "rendezvous/coordinator_service.h"
#include "rendezvous/transport/session.h"

namespace muster::agent {

class LocalSession : public rendezvous::Session {
 public:
  // local_address: passed to on_connected; empty if unknown.
  LocalSession(EventLoop* loop, rendezvous::CoordinatorService* coordinator, std::string local_address,
               rendezvous::SessionEvents events);
  ~LocalSession() override;

  void Connect() override;
  void Send(const v1::AgentStatus& status) override;
  void Disconnect() override;

 private:
  struct Link {
    rendezvous::StreamId stream = 0;
    bool up = false;
  };

  EventLoop* const loop_;
  rendezvous::CoordinatorService* const coordinator_;
  const std::string local_address_;
  const rendezvous::SessionEvents events_;
  std::shared_ptr<Link> link_;  // posted closures hold it weakly and do nothing once it is gone
};

}  // namespace muster::agent
