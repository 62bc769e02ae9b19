// One question to the coordinator of a job, on a connection of its own. Lives on the loop thread.
#pragma once

#include <grpcpp/grpcpp.h>

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/crypto/identity.h"
#include "base/io/event_loop.h"
#include "muster/v1/control.grpc.pb.h"
#include "muster/v1/control.pb.h"
#include "rendezvous/transport/completion_thread.h"
#include "rendezvous/transport/dialing.h"

namespace muster::rendezvous {

class Inquiry {
 public:
  struct Asker {
    Identity host;       // for whom it asks; an empty id: for nobody, which a job without credentials refuses
    std::string run_id;  // of that host
  };
  // Called once, on the loop thread, never from inside this class; not after its end. Errors, for people: no
  // connection (as of Dialer); DeadlineExceeded: not within `limit`; Unimplemented: the coordinator is older; its
  // own refusals.
  using Done = std::function<void(const absl::StatusOr<v1::JobView>& view)>;

  // question: without what says who asks.
  Inquiry(DialPlan plan, const Asker& asker, const v1::Question& question, absl::Duration limit, EventLoop* loop,
          Done done);
  ~Inquiry();  // cancels it
  // Once `done` is called the connection has been closed, though this object still exists.
  Inquiry(const Inquiry&) = delete;
  Inquiry& operator=(const Inquiry&) = delete;

 private:
  void Dial();
  void OnDialled(OwnedFd application, const DialledAs& as);
  void OnDialEnded(const absl::Status& why);
  void OnFinished();
  void OnTooLate();
  void End(absl::StatusOr<v1::JobView> view);

  const DialPlan plan_;
  const Asker asker_;
  const v1::Question question_;
  const absl::Duration limit_;
  EventLoop* const loop_;
  Done done_;                                                   // empty: it was called
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);  // for closures that the dialer's thread posts
  EventLoop::TimerId timer_ = 0;
  size_t choice_ = 0;  // which of its credentials this node shows
  std::unique_ptr<Dialer> dialer_;
  absl::Status dial_error_;  // why the connection has ended; OK: it has not
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<grpc::ClientContext> context_ = std::make_unique<grpc::ClientContext>();
  v1::JobView view_;
  grpc::Status status_;
  Tag finished_;
  std::unique_ptr<grpc::ClientAsyncResponseReader<v1::JobView>> reader_;  // null: not connected yet
  bool is_late_ = false;
  std::unique_ptr<CompletionThread> thread_;  // joined before what its operations use is destroyed
};

}  // namespace muster::rendezvous
