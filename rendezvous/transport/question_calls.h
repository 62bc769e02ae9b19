// The calls of `Control.Look` at a server: each is one question on a connection of its own, and one answer. Lives
// on the loop thread.
#pragma once

#include <grpcpp/grpcpp.h>

#include <functional>
#include <memory>
#include <set>

#include "absl/status/statusor.h"
#include "base/core/time.h"
#include "muster/v1/control.grpc.pb.h"
#include "muster/v1/control.pb.h"
#include "rendezvous/transport/completion_thread.h"
#include "rendezvous/transport/kept_answers.h"

namespace muster::rendezvous {

inline constexpr int kMaxQuestions = 64;  // open at a time; more are told to ask again
inline constexpr absl::Duration kAnswerKept = absl::Milliseconds(300);  // one answer serves all who ask meanwhile
inline constexpr size_t kMaxQuestionBytes = 8 * 1024;                   // a real one has a few hundred

class QuestionCalls {
 public:
  // peer: as gRPC names it. Errors: why it gets no answer, for people.
  using MayAsk = std::function<absl::Status(const std::string& peer, const v1::Question& question)>;
  using View = std::function<absl::StatusOr<v1::JobView>(const v1::Question& question)>;

  QuestionCalls(MayAsk may_ask, View view);
  ~QuestionCalls();  // after the queue's thread has ended
  QuestionCalls(const QuestionCalls&) = delete;
  QuestionCalls& operator=(const QuestionCalls&) = delete;

  grpc::Service* service() { return &service_; }
  // Once the server runs. The queue must be the server's.
  void Begin(grpc::ServerCompletionQueue* queue);
  void Stop() { stopping_ = true; }  // the server is shutting down: no call is accepted any more
  void Clear();                      // the queue's thread has ended, and the server is about to

 private:
  struct Call;

  void Accept();
  void OnAccepted(bool ok);
  void OnEnded(Call* call);
  grpc::Status Reply(const Call& call, grpc::ByteBuffer* bytes);
  // The newest answer to a question of this kind.
  absl::StatusOr<grpc::Slice> AnswerTo(const v1::Question& question);

  const MayAsk may_ask_;
  const View view_;
  v1::Control::WithRawMethod_Look<v1::Control::Service> service_;
  grpc::ServerCompletionQueue* queue_ = nullptr;
  bool stopping_ = false;
  std::unique_ptr<Call> accepting_;
  std::set<std::unique_ptr<Call>> calls_;
  KeptAnswers<grpc::Slice> kept_{kAnswerKept};
};

}  // namespace muster::rendezvous
