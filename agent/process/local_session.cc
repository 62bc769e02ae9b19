#include "agent/process/local_session.h"

#include <utility>

namespace muster::agent {

LocalSession::LocalSession(EventLoop* loop, rendezvous::CoordinatorService* coordinator, std::string local_address,
                           rendezvous::SessionEvents events)
    : loop_(loop),
      coordinator_(coordinator),
      local_address_(std::move(local_address)),
      events_(std::move(events)) {}

LocalSession::~LocalSession() {
  if (link_ != nullptr) coordinator_->DetachLocal(link_->stream);
}

void LocalSession::Connect() {
  if (link_ != nullptr) coordinator_->DetachLocal(link_->stream);
  link_ = std::make_shared<Link>();
  const std::weak_ptr<Link> weak = link_;
  link_->stream =
      coordinator_->AttachLocal({.on_directive =
                                     [this, weak](const v1::Directive& directive) {
                                       if (!weak.expired()) events_.on_directive(directive);
                                     },
                                 .on_closed =
                                     [this, weak](const std::string& why) {
                                       if (weak.expired()) return;
                                       link_.reset();
                                       events_.on_disconnected("the coordinator closed the session: " + why, 0);
                                     }});
  loop_->Post([this, weak] {
    const auto link = weak.lock();
    if (link == nullptr) return;
    link->up = true;
    events_.on_connected(local_address_);
  });
}

void LocalSession::Send(const v1::AgentStatus& status) {
  if (link_ == nullptr || !link_->up) return;
  loop_->Post([this, weak = std::weak_ptr<Link>(link_), status] {
    if (const auto link = weak.lock()) coordinator_->OnLocalStatus(link->stream, status);
  });
}

void LocalSession::Disconnect() {
  // Posted, so that it takes effect after the statuses sent before.
  loop_->Post([this, weak = std::weak_ptr<Link>(link_)] {
    if (const auto link = weak.lock()) {
      coordinator_->DetachLocal(link->stream);
      link_.reset();
    }
    events_.on_closed();
  });
}

}  // namespace muster::agent
