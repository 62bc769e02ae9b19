#include "rendezvous/transport/question_calls.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/core/status_macros.h"

namespace muster::rendezvous {

// Destroyed when no operation of it is outstanding.
struct QuestionCalls::Call {
  grpc::ServerContext context;
  // Bytes, not messages: gRPC would parse a question before its size is known.
  grpc::ByteBuffer question;
  grpc::ServerAsyncResponseWriter<grpc::ByteBuffer> writer{&context};
  Tag accepted, ended;
};

QuestionCalls::QuestionCalls(Answerer answer) : answer_(std::move(answer)) {}

QuestionCalls::~QuestionCalls() = default;

void QuestionCalls::Begin(grpc::ServerCompletionQueue* queue) {
  queue_ = queue;
  Accept();
}

void QuestionCalls::Accept() {
  accepting_ = std::make_unique<Call>();
  accepting_->accepted.done = [this](bool ok) { OnAccepted(ok); };
  service_.RequestLook(&accepting_->context, &accepting_->question, &accepting_->writer, queue_, queue_,
                       &accepting_->accepted);
}

void QuestionCalls::OnAccepted(bool ok) {
  std::unique_ptr<Call> owned = std::move(accepting_);
  if (!ok || stopping_) return;  // only when the server shuts down
  Accept();
  Call* const call = owned.get();
  calls_.insert(std::move(owned));
  call->ended.done = [this, call](bool) { OnEnded(call); };
  grpc::ByteBuffer bytes;
  const grpc::Status status = Reply(*call, &bytes);
  if (status.ok()) {
    call->writer.Finish(bytes, status, &call->ended);
  } else {
    call->writer.FinishWithError(status, &call->ended);
  }
}

grpc::Status QuestionCalls::Reply(const Call& call, grpc::ByteBuffer* bytes) const {
  if (calls_.size() > kMaxQuestions)
    return {grpc::StatusCode::RESOURCE_EXHAUSTED, "too many ask at the same time; ask again"};
  grpc::Slice whole;
  v1::Question question;
  const bool fits = call.question.Length() <= kMaxQuestionBytes && call.question.DumpToSingleSlice(&whole).ok();
  if (!fits || !question.ParseFromArray(whole.begin(), static_cast<int>(whole.size())))
    return {grpc::StatusCode::INVALID_ARGUMENT, "it sent something that is no question"};
  const absl::StatusOr<v1::JobView> view = answer_(call.context.peer(), question);
  if (!view.ok())
    return {static_cast<grpc::StatusCode>(view.status().code()), std::string(AsStd(view.status().message()))};
  const grpc::Slice answer(view->SerializeAsString());
  *bytes = grpc::ByteBuffer(&answer, 1);
  return grpc::Status::OK;
}

void QuestionCalls::OnEnded(Call* call) {
  const auto found =
      std::find_if(calls_.begin(), calls_.end(), [call](const auto& one) { return one.get() == call; });
  if (found != calls_.end()) calls_.erase(found);
}

}  // namespace muster::rendezvous
