// The coordinator of the primary, which runs in its agent's process: its port, the retries while another process
// uses that, and the check that the other nodes can reach it. On a node that is not the primary it holds no
// coordinator, but explains failures to connect if the primary's port is used on this machine.
//
// Lives on the loop thread.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "agent/process/reach_check.h"
#include "base/io/event_loop.h"
#include "muster/v1/host.pb.h"
#include "rendezvous/coordinator_service.h"
#include "rendezvous/core/port_retry.h"
#include "rendezvous/job_shown.h"
#include "rendezvous/transport/listen_address.h"
#include "rendezvous/transport/session.h"

namespace muster::agent {

class LocalCoordinator {
 public:
  using Next = rendezvous::PortRetry::Next;
  // first: the first status of the host. sockets: inherited from the host, which holds the port with them while
  // its agent is replaced; they become this object's. member_attached: an agent of another process was admitted,
  // from this address.
  LocalCoordinator(EventLoop* loop, const v1::HostStatus& first, const rendezvous::InheritedSockets& sockets,
                   std::shared_ptr<const rendezvous::LiveCredentials> credentials,
                   std::function<void(const std::string& peer)> member_attached);
  ~LocalCoordinator();
  LocalCoordinator(const LocalCoordinator&) = delete;
  LocalCoordinator& operator=(const LocalCoordinator&) = delete;

  // Listens on the primary's port. False: another process uses it, so this node is not the primary. Another
  // failure counts as success, and Listen() reports it.
  bool ClaimPort();
  void Withdraw();  // before Serve(): undoes it
  // Creates the coordinator, unless ClaimPort() has. The session of this process's agent needs it.
  rendezvous::CoordinatorService* Serve();
  // Listens, if this process serves other nodes and does not listen yet. nullopt: there is nothing left to do.
  // Else why it failed; the code, if not 0, is the one to exit with. has_served: this node has been in the job.
  std::optional<Next> Listen(bool has_served);

  // What to do after a failed connection. why, refused, port: from the session. Names the process of this machine
  // that uses the port of the primary, if there is one.
  Next AfterFailure(const std::string& why, int refused, rendezvous::OwnPort port);
  void OnMemberAttached();
  // The host is dead or about to exit: the port is another's. Agents that are connected stay so.
  void GiveUpPort();  // and that of --http

  void Tick();
  // The job as the coordinator sees it; nullopt: that is not here, or has not begun.
  std::optional<v1::JobView> Look(const v1::Question& question) {
    return serves_ ? service_->Look(question) : std::nullopt;
  }
  bool HasShownAll() const { return !shown_ || shown_->IsDone(); }  // of --events and --on-event
  bool HasRemoteMembers() const { return service_ != nullptr && service_->HasRemoteMembers(); }

 private:
  void MakeService();
  absl::Status TryToListen();
  void CloseSockets();
  void CheckAddress();
  void SayWhoIsLetIn();
  void RefreshPortHolder(BootTime now);
  uint16_t Port() const { return static_cast<uint16_t>(config_.primary().port()); }

  EventLoop* const loop_;

  const v1::NodeConfig config_;
  const std::string host_id_;
  const BootTime host_began_;
  rendezvous::InheritedSockets sockets_;
  const std::shared_ptr<const rendezvous::LiveCredentials> credentials_;
  const bool has_met_others_;  // an earlier agent of this host was in the job
  const std::function<void(const std::string& peer)> member_attached_;
  std::unique_ptr<rendezvous::CoordinatorService> service_;
  std::unique_ptr<ReachCheck> reach_check_;
  rendezvous::PortRetry port_retry_;
  std::optional<rendezvous::JobShown> shown_;  // once this serves
  bool listens_ = false;
  bool serves_ = false;
  bool has_given_up_ = false;  // its ports
};

}  // namespace muster::agent
