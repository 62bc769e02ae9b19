#include "rendezvous/coordinator_service.h"

#include <utility>

#include "absl/time/clock.h"
#include "base/core/check.h"
#include "base/core/status_macros.h"
#include "base/wire/ids.h"
#include "rendezvous/core/orders.h"
#include "rendezvous/core/snapshot.h"
#include "rendezvous/core/stack_view.h"

namespace muster::rendezvous {

namespace {

void SetWallTimes(v1::Events* events) {
  const int64_t now = absl::ToUnixMillis(absl::Now());
  for (v1::Event& event : *events->mutable_newest()) event.set_wall_ms(now - event.age_ms());
}

}  // namespace

CoordinatorService::CoordinatorService(CoordinatorOptions options, uint64_t entropy, Callbacks callbacks)
    : options_(std::move(options)), entropy_(entropy), callbacks_(std::move(callbacks)) {
  MUSTER_CHECK(callbacks_.post && callbacks_.clock && callbacks_.note, "callbacks are incomplete");
}

CoordinatorService::~CoordinatorService() { Shutdown(); }

absl::Status CoordinatorService::Listen(const ServerOptions& options) {
  MUSTER_CHECK(server_ == nullptr, "listens already");
  ASSIGN_OR_RETURN(server_, Server::Start(options, callbacks_.post, this));
  driver();
  return absl::OkStatus();
}

// The core is created late: it waits for nodes that may hold a lease, counted from when they can reach it.
CoordinatorDriver& CoordinatorService::driver() {
  if (!core_.has_value()) {
    core_.emplace(options_, callbacks_.clock(), entropy_);
    driver_.emplace(
        &*core_, CoordinatorDriver::Shell{.clock = callbacks_.clock,
                                          .carry_out = ByType<Effect>([this](const auto& effect) { Do(effect); }),
                                          .log = callbacks_.note});
  }
  return *driver_;
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

void CoordinatorService::Tick() { driver().Feed(&Coordinator::OnTick); }

std::optional<v1::JobView> CoordinatorService::Look(const v1::Question& question) {
  if (!core_.has_value()) return std::nullopt;
  switch (question.kind()) {
    case v1::Question::KIND_EVENTS:
      return EventsAt(callbacks_.clock());
    case v1::Question::KIND_STACKS: {
      driver_->Feed(&Coordinator::OnStacksWanted);
      v1::JobView view = ViewWithoutNodes();
      *view.mutable_stacks() = StacksOf(callbacks_.clock(), core_->job());
      return view;
    }
    case v1::Question::KIND_RANK: {
      driver_->Feed(&Coordinator::OnRankWanted, question.rank());
      v1::JobView view = ViewWithoutNodes();
      *view.mutable_rank() = RankOf(callbacks_.clock(), question.rank(), core_->job());
      return view;
    }
    case v1::Question::KIND_ORDER:
      driver_->Feed(&Coordinator::OnOrder, question.order());
      return AnswerToOrder(question.order());
    default:
      return View();
  }
}

v1::JobView CoordinatorService::View() const {
  v1::JobView view = Snapshot(callbacks_.clock(), core_->job());
  view.set_protocol(kProtocol);
  return view;
}

// They are long, and not what was asked for.
v1::JobView CoordinatorService::ViewWithoutNodes() const {
  v1::JobView view = View();
  view.clear_nodes();
  return view;
}

// An order is asked for again and again, so its answer leaves out what takes a look at all nodes.
v1::JobView CoordinatorService::AnswerToOrder(const v1::Order& order) const {
  v1::JobView view;
  view.set_protocol(kProtocol);
  view.set_run_id(options_.run_id);
  *view.mutable_ordered() = AnswerTo(order, core_->job());
  if (core_->verdict()) view.set_exit_code(core_->verdict()->exit_code());
  return view;
}

v1::JobView CoordinatorService::EventsAt(BootTime now) const {
  v1::JobView view;
  view.set_protocol(kProtocol);
  view.set_run_id(options_.run_id);
  *view.mutable_events() = core_->job().events.ToMessage(now);
  SetWallTimes(view.mutable_events());
  return view;
}

v1::Events CoordinatorService::TakeNewEvents() {
  v1::Events events;
  if (core_.has_value())
    events_taken_ =
        core_->job().events.CopyAfter(callbacks_.clock(), events_taken_, kMaxEventsKept, events.mutable_newest());
  SetWallTimes(&events);
  return events;
}

// A host that the coordinator does not know may be anybody's.
absl::Status CoordinatorService::MayAsk(const std::string& host_id) {
  if (core_.has_value() && core_->job().hosts.Find(host_id) != nullptr) return absl::OkStatus();
  return absl::PermissionDeniedError("the node that asks is not in this job");
}

absl::StatusOr<v1::JobView> CoordinatorService::OnQuestion(const v1::Question& question) {
  std::optional<v1::JobView> view = Look(question);
  if (!view) return absl::UnavailableError("the coordinator begins");
  return *std::move(view);
}

std::optional<v1::Verdict> CoordinatorService::FinishedWith() const {
  return core_.has_value() && core_->finished() ? core_->verdict() : std::nullopt;
}

void CoordinatorService::AskToEnd() { driver().Feed(&Coordinator::OnAskedToEnd); }

bool CoordinatorService::MayEnd() const { return !core_.has_value() || core_->MayEnd(callbacks_.clock()); }

void CoordinatorService::OnStatus(StreamId stream, const v1::AgentStatus& status) {
  driver().Feed(&Coordinator::OnStatus, stream, status);
}

void CoordinatorService::OnClosed(StreamId stream) { driver().Feed(&Coordinator::OnClosed, stream); }

void CoordinatorService::OnTurnedAway(const std::string& peer, const std::string& why) {
  driver().Feed(&Coordinator::OnTurnedAway, peer, why);
}

void CoordinatorService::Do(const AdmitStream& admitted) {
  if (server_ == nullptr) return;
  server_->Admit(admitted.stream);
  if (!callbacks_.member_attached) return;
  const std::string peer = server_->PeerOf(admitted.stream);  // empty for an agent of this process
  if (!peer.empty()) callbacks_.member_attached(peer);
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

void CoordinatorService::StopListening() {
  if (server_ != nullptr) server_->StopListening();
}

void CoordinatorService::Shutdown() {
  alive_.reset();
  local_.clear();
  if (server_ != nullptr) server_->Shutdown();
}

}  // namespace muster::rendezvous
