#include "agent/process/local_coordinator.h"

#include <unistd.h>

#include <utility>

#include "agent/process/core/agent_core.h"
#include "base/console/log.h"
#include "base/proc/port_holder.h"
#include "rendezvous/transport/process_start.h"
#include "rendezvous/transport/serving.h"
#include "rendezvous/transport/session_error.h"

namespace muster::agent {

LocalCoordinator::LocalCoordinator(EventLoop* loop, const v1::HostStatus& first,
                                   const rendezvous::InheritedSockets& sockets,
                                   std::shared_ptr<const rendezvous::LiveCredentials> credentials,
                                   std::function<void(const std::string& peer)> member_attached)
    : loop_(loop),

      config_(first.config()),
      host_id_(first.host_id()),
      host_began_(FromBootNanos(first.memory().joined_boot_ns())),
      sockets_(sockets),
      credentials_(std::move(credentials)),
      has_met_others_(first.memory().epoch().number() > 0),
      member_attached_(std::move(member_attached)) {
  // The agent before this one may have died before its host had stored that it serves.
  if (!first.memory().served()) rendezvous::StopListening(sockets_);
}

LocalCoordinator::~LocalCoordinator() { CloseSockets(); }

void LocalCoordinator::CloseSockets() {
  for (int* const fd : {&sockets_.ipv4, &sockets_.ipv6}) {
    if (*fd >= 0) close(std::exchange(*fd, -1));
  }
}

void LocalCoordinator::GiveUpPort() {
  if (shown_) shown_->StopListening();
  has_given_up_ = true;
  if (service_ != nullptr) service_->StopListening();
  rendezvous::StopListening(sockets_);
  CloseSockets();
}

void LocalCoordinator::MakeService() {
  rendezvous::RaiseDescriptorLimit();  // before the gate counts how many strangers it may let in
  rendezvous::CoordinatorOptions options = rendezvous::OptionsFrom(config_);
  options.host_began = host_began_;
  service_ = std::make_unique<rendezvous::CoordinatorService>(
      std::move(options), rendezvous::Entropy(),
      rendezvous::CoordinatorService::Callbacks{
          .post = [this](std::function<void()> closure) { loop_->Post(std::move(closure)); },
          .clock = &EventLoop::Now,
          .note = [](const Note& note) { Log("coordinator", note); },
          .member_attached = member_attached_});
}

absl::Status LocalCoordinator::TryToListen() {
  rendezvous::ServerOptions options = rendezvous::ServerOptionsFrom(config_, credentials_, host_id_);
  options.inherited = sockets_;
  absl::Status status = service_->Listen(options);
  listens_ = status.ok();
  if (listens_ && serves_) SayWhoIsLetIn();
  return status;
}

void LocalCoordinator::SayWhoIsLetIn() {
  if (has_met_others_) return;
  for (const Note& note : rendezvous::ServingNotes(config_)) Log("agent", note);
}

bool LocalCoordinator::ClaimPort() {
  MakeService();
  const bool used_by_other = absl::IsUnavailable(TryToListen());
  if (used_by_other) service_.reset();
  return !used_by_other;
}

void LocalCoordinator::Withdraw() {
  service_.reset();
  rendezvous::StopListening(sockets_);
  listens_ = false;
}

rendezvous::CoordinatorService* LocalCoordinator::Serve() {
  if (service_ == nullptr) MakeService();
  serves_ = true;
  if (listens_) SayWhoIsLetIn();
  return service_.get();
}

std::optional<LocalCoordinator::Next> LocalCoordinator::Listen(bool has_served) {
  if (!serves_ || config_.single_node() || listens_) return std::nullopt;
  const absl::Status status = TryToListen();
  if (listens_) {
    CheckAddress();
    return std::nullopt;
  }
  const BootTime now = EventLoop::Now();
  if (absl::IsUnavailable(status)) RefreshPortHolder(now);
  return port_retry_.OnFailure(now, status,
                               {.has_served = has_served, .lease = rendezvous::LeaseOf(config_), .port = Port()});
}

// Blocks while it searches.
void LocalCoordinator::RefreshPortHolder(BootTime now) {
  if (port_retry_.SearchIsDue(now)) port_retry_.SetHolder(now, FindPortHolder(Port()));
}

LocalCoordinator::Next LocalCoordinator::AfterFailure(const std::string& why, int refused,
                                                      rendezvous::OwnPort port) {
  if (!MayServe(config_) || port != rendezvous::OwnPort::kUsed || refused != 0) return {why, refused};
  const BootTime now = EventLoop::Now();
  RefreshPortHolder(now);
  return port_retry_.OnNoCoordinator(now, why, rendezvous::IsOtherProgram(why));
}

// Checks the address by which the other nodes find this one. An address from the platform needs no check; on some
// platforms it does not even lead the primary back to itself.
void LocalCoordinator::CheckAddress() {
  const bool set_by_user = config_.serves() == v1::NodeConfig::SERVES_YES && !config_.primary_source().empty();
  if (!set_by_user || config_.loopback_only() || has_met_others_ || reach_check_ != nullptr) return;
  reach_check_ =
      std::make_unique<ReachCheck>(config_, credentials_, host_id_, loop_,
                                   [](const std::string& warning) { Log(Severity::kWarning, "agent", warning); });
}

void LocalCoordinator::OnMemberAttached() {
  if (reach_check_ != nullptr) reach_check_->OnMemberAttached();
}

void LocalCoordinator::Tick() {
  if (!serves_ || (!listens_ && !config_.single_node())) return;
  service_->Tick();
  if (!shown_) {
    shown_.emplace(loop_, config_, service_.get(), [](const Note& note) { Log("coordinator", note); });
    if (has_given_up_) shown_->StopListening();
  }
  shown_->OnTick();
}

}  // namespace muster::agent
