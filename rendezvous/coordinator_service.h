// Runs the coordinator's core: holds its server and the streams of agents in this process, and carries out the
// core's effects in the given order. Lives on the loop thread.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "muster/v1/rendezvous.pb.h"
#include "rendezvous/core/coordinator.h"
#include "rendezvous/transport/post.h"
#include "rendezvous/transport/server.h"

namespace muster::rendezvous {

class CoordinatorService : private StreamEvents {
 public:
  struct Callbacks {
    Post post;
    Clock clock;
    std::function<void(const Note&)> note;  // logs a line of the core
    // An agent of another process has attached from this IP address and was admitted. May be empty.
    std::function<void(const std::string& peer)> member_attached;
  };
  // Callbacks of an agent in this process. Called on the loop thread, never from inside a call to this class.
  struct LocalAgent {
    std::function<void(const v1::Directive&)> on_directive;
    std::function<void(const std::string& why)> on_closed;  // the coordinator has closed the stream
  };

  CoordinatorService(CoordinatorOptions options, uint64_t entropy, Callbacks callbacks);
  ~CoordinatorService() override;

  // Opens the port. Not called for a single-node job, which listens nowhere. The core is created when this has
  // succeeded, or by the first call of Tick() or OnLocalStatus().
  absl::Status Listen(const ServerOptions& options);
  int port() const { return server_ == nullptr ? 0 : server_->port(); }
  bool HasRemoteMembers() const { return server_ != nullptr && server_->members() > 0; }

  StreamId AttachLocal(LocalAgent agent);
  void OnLocalStatus(StreamId stream, const v1::AgentStatus& status);
  void DetachLocal(StreamId stream);

  void Tick();  // every kTick
  // The job at this moment, or what else the question wants, as far as it is known; nullopt: the core has not
  // begun.
  std::optional<v1::JobView> Look(const v1::Question& question);
  v1::Events TakeNewEvents();  // since the last call
  bool HasNewEvents() const { return core_.has_value() && core_->job().events.last() > events_taken_; }
  std::string Waiting() const { return core_.has_value() ? core_->Waiting() : ""; }
  // The verdict, once the job is over and every node has been told or the time for that has passed.
  std::optional<v1::Verdict> FinishedWith() const;

  void StopListening();  // agents that are connected stay so
  // For a separate coordinator: makes no more rounds from now on, and tells when no node needs it any more.
  void AskToEnd();
  bool MayEnd() const;

  // Closes every stream and stops listening. Blocks, at most a little over kServerShutdownLimit.
  void Shutdown();

 private:
  void OnStatus(StreamId stream, const v1::AgentStatus& status) override;
  void OnClosed(StreamId stream) override;
  void OnTurnedAway(const std::string& peer, const std::string& why) override;
  absl::Status MayAsk(const std::string& host_id) override;
  absl::StatusOr<v1::JobView> OnQuestion(const v1::Question& question) override;

  v1::JobView View() const;
  v1::JobView ViewWithoutNodes() const;
  v1::JobView AnswerToOrder(const v1::Order& order) const;
  v1::JobView EventsAt(BootTime now) const;
  CoordinatorDriver& driver();
  void Do(const SendDirective& send);
  void Do(const CloseStream& close);
  void Do(const AdmitStream& admitted);

  const CoordinatorOptions options_;
  const uint64_t entropy_;
  const Callbacks callbacks_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);  // posted closures may outlive this object
  std::optional<Coordinator> core_;
  std::optional<CoordinatorDriver> driver_;  // of core_, created with it
  std::unique_ptr<Server> server_;
  uint64_t events_taken_ = 0;  // number of the last one
  StreamId next_local_ = kLocalStreamBit;
  std::map<StreamId, std::shared_ptr<LocalAgent>> local_;
};

}  // namespace muster::rendezvous
