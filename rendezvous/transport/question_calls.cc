#include "rendezvous/transport/question_calls.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/core/status_macros.h"
#include "base/io/event_loop.h"

namespace muster::rendezvous {

// Destroyed when no operation of it is outstanding.
struct QuestionCalls::Call {
  grpc::ServerContext context;
  // Bytes, not messages: gRPC would parse a question before its size is known.
  grpc::ByteBuffer question;
  grpc::ServerAsyncResponseWriter<grpc::ByteBuffer> writer{&context};
  Tag accepted, ended;
};

namespace {

// The others are those of a door.
bool IsAnswered(v1::Question::Kind kind) {
  return kind == v1::Question::KIND_STATUS || kind == v1::Question::KIND_STACKS ||
         kind == v1::Question::KIND_EVENTS || kind == v1::Question::KIND_RANK || kind == v1::Question::KIND_ORDER;
}

}  // namespace

QuestionCalls::QuestionCalls(MayAsk may_ask, View view) : may_ask_(std::move(may_ask)), view_(std::move(view)) {}

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

grpc::Status QuestionCalls::Reply(const Call& call, grpc::ByteBuffer* bytes) {
  const auto refused = [](const absl::Status& why) {
    return grpc::Status(static_cast<grpc::StatusCode>(why.code()), std::string(AsStd(why.message())));
  };
  if (calls_.size() > kMaxQuestions) return refused(absl::ResourceExhaustedError("too many ask; ask again"));
  grpc::Slice whole;
  v1::Question question;
  const bool fits = call.question.Length() <= kMaxQuestionBytes && call.question.DumpToSingleSlice(&whole).ok();
  if (!fits || !question.ParseFromArray(whole.begin(), static_cast<int>(whole.size())) ||
      !IsAnswered(question.kind()))
    return refused(absl::InvalidArgumentError("it sent something that is no question"));
  if (const absl::Status may = may_ask_(call.context.peer(), question); !may.ok()) return refused(may);
  const absl::StatusOr<grpc::Slice> answer = AnswerTo(question);
  if (!answer.ok()) return refused(answer.status());
  *bytes = grpc::ByteBuffer(&*answer, 1);  // counts references: many slow readers hold one answer
  return grpc::Status::OK;
}

absl::StatusOr<grpc::Slice> QuestionCalls::AnswerTo(const v1::Question& question) {
  if (const grpc::Slice* const kept = kept_.Find(EventLoop::Now(), question)) return *kept;
  ASSIGN_OR_RETURN(const v1::JobView view, view_(question));
  const grpc::Slice answer(view.SerializeAsString());
  kept_.Keep(EventLoop::Now(), question, answer);
  return answer;
}

void QuestionCalls::Clear() {
  calls_.clear();
  accepting_.reset();
}

void QuestionCalls::OnEnded(Call* call) {
  const auto found =
      std::find_if(calls_.begin(), calls_.end(), [call](const auto& one) { return one.get() == call; });
  if (found != calls_.end()) calls_.erase(found);
}

}  // namespace muster::rendezvous
