#include "rendezvous/coordinator_service.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "base/check.h"
#include "base/status_macros.h"

namespace muster::rendezvous {

CoordinatorService::CoordinatorService(CoordinatorOptions options, uint64_t entropy, Callbacks callbacks)
    : options_(std::move(options)), entropy_(entropy), callbacks_(std::move(callbacks)) {
  MUSTER_CHECK(callbacks_.post && callbacks_.clock && callbacks_.note, "callbacks are incomplete");
}

CoordinatorService::~CoordinatorService() { Shutdown(); }

absl::Status CoordinatorService::Listen(const ServerOptions& options) {
  MUSTER_CHECK(server_ == nullptr, "listens already");
  ASSIGN_OR_RETURN(server_, Server::Start(options, callbacks_.post, this));
  core();
  return absl::OkStatus();
}

// Created late: the core waits for nodes that may hold a lease, counted from when they can reach it.
Coordinator& CoordinatorService::core() {
  if (core_ == nullptr) core_ = std::make_unique<Coordinator>(options_, callbacks_.clock(), entropy_);
  return *core_;
}

StreamId CoordinatorService::AttachLocal(LocalAgent agent) {
  const StreamId stream = ++next_local_;
  local_.emplace(stream, std::make_shared<LocalAgent>(std::move(agent)));
  return stream;
}

void CoordinatorService::OnLocalStatus(StreamId stream, const v1::AgentStatus& status) {
  if (local_.count(stream) > 0) OnStatus(stream, status);
}

void CoordinatorService::DetachLocal(StreamId stream) {
  if (local_.erase(stream) > 0) OnClosed(stream);
}

void CoordinatorService::Tick() {
  Effects effects;
  core().OnTick(callbacks_.clock(), &effects);
  CarryOut(effects);
}

std::optional<v1::Verdict> CoordinatorService::FinishedWith() const {
  return core_ != nullptr && core_->finished() ? core_->verdict() : std::nullopt;
}

void CoordinatorService::OnOpened(StreamId stream, const std::string& peer) {
  if (!peer.empty()) unconfirmed_[stream] = peer;
}

void CoordinatorService::OnStatus(StreamId stream, const v1::AgentStatus& status) {
  Effects effects;
  core().OnStatus(callbacks_.clock(), stream, status, &effects);
  CarryOut(effects);
  const auto newcomer = unconfirmed_.find(stream);
  if (newcomer == unconfirmed_.end()) return;
  const bool refused = std::any_of(effects.begin(), effects.end(), [stream](const Effect& effect) {
    const auto* const sent = std::get_if<SendDirective>(&effect);
    return sent != nullptr && sent->stream == stream && sent->directive.has_refused();
  });
  if (refused) return;
  if (callbacks_.member_attached) callbacks_.member_attached(newcomer->second);
  unconfirmed_.erase(newcomer);
}

void CoordinatorService::OnClosed(StreamId stream) {
  unconfirmed_.erase(stream);
  Effects effects;
  core().OnClosed(callbacks_.clock(), stream, &effects);
  CarryOut(effects);
}

void CoordinatorService::OnTurnedAway(const std::string& peer, const std::string& why) {
  Effects effects;
  core().OnTurnedAway(callbacks_.clock(), peer, why, &effects);
  CarryOut(effects);
}

void CoordinatorService::CarryOut(const Effects& effects) {
  for (const Effect& effect : effects) {
    std::visit([this](const auto& e) { Do(e); }, effect);
  }
}

void CoordinatorService::Do(const SendDirective& send) {
  const auto it = local_.find(send.stream);
  if (it == local_.end()) {
    if (server_ != nullptr) server_->Send(send.stream, send.directive);
    return;
  }
  callbacks_.post([agent = std::weak_ptr<LocalAgent>(it->second), directive = send.directive] {
    if (const auto to = agent.lock()) to->on_directive(directive);
  });
}

void CoordinatorService::Do(const CloseStream& close) {
  const auto it = local_.find(close.stream);
  if (it == local_.end()) {
    if (server_ != nullptr) server_->Close(close.stream, close.reason);
    return;
  }
  // The closure keeps the agent alive, so that directives posted earlier are delivered first.
  callbacks_.post([alive = std::weak_ptr<bool>(alive_), agent = it->second, reason = close.reason] {
    if (alive.lock() != nullptr) agent->on_closed(reason);
  });
  local_.erase(it);
}

void CoordinatorService::Shutdown() {
  alive_.reset();
  local_.clear();
  if (server_ != nullptr) server_->Shutdown();
}

}  // namespace muster::rendezvous
