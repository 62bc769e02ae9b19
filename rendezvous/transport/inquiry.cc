#include "rendezvous/transport/inquiry.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/core/status_macros.h"
#include "base/wire/ids.h"
#include "rendezvous/transport/speaker.h"

namespace muster::rendezvous {

Inquiry::Inquiry(DialPlan plan, const Asker& asker, const v1::Question& question, absl::Duration limit,
                 EventLoop* loop, Done done)
    : plan_(std::move(plan)),
      asker_(asker),
      question_(question),
      limit_(limit),
      loop_(loop),
      done_(std::move(done)),
      thread_(std::make_unique<CompletionThread>(
          std::make_unique<grpc::CompletionQueue>(),
          [loop](std::function<void()> closure) { loop->Post(std::move(closure)); })) {
  timer_ = loop_->After(limit_, [this] { OnTooLate(); });
  finished_.done = [this](bool) { OnFinished(); };
  thread_->status().ok() ? Dial() : End(thread_->status());
}

Inquiry::~Inquiry() {
  alive_.reset();
  loop_->Cancel(timer_);
  if (context_ != nullptr) context_->TryCancel();
  thread_->Join();
}

void Inquiry::Dial() {
  Dialer::Events events;
  events.on_connected = [this, alive = std::weak_ptr<bool>(alive_)](OwnedFd fd, const DialledAs& as) {
    loop_->Post([this, alive, as, shared = std::make_shared<OwnedFd>(std::move(fd))] {
      if (!alive.expired()) OnDialled(std::move(*shared), as);
    });
  };
  events.on_ended = [this, alive = std::weak_ptr<bool>(alive_)](const absl::Status& why) {
    loop_->Post([this, alive, why] {
      if (!alive.expired()) OnDialEnded(why);
    });
  };
  const auto shown = plan_.credentials == nullptr ? nullptr : plan_.credentials->newest().credentials;
  absl::StatusOr<std::unique_ptr<Dialer>> dialer =
      Dialer::Start(TargetOf(plan_, shown, choice_), std::move(events));
  if (!dialer.ok()) return End(dialer.status());
  dialer_ = *std::move(dialer);
}

void Inquiry::OnDialled(OwnedFd application, const DialledAs& as) {
  if (!done_) return;
  v1::Question question = question_;
  question.set_protocol(kProtocol);
  if (!asker_.host.id.empty()) {
    question.set_host_id(asker_.host.id);
    *question.mutable_proof() = ProveHost(asker_.host, asker_.run_id, as.binding);
  }
  channel_ = ChannelOver(std::move(application), plan_);
  reader_ = v1::Control::NewStub(channel_)->PrepareAsyncLook(context_.get(), question, thread_->queue());
  reader_->StartCall();
  reader_->Finish(&view_, &status_, &finished_);
}

void Inquiry::OnDialEnded(const absl::Status& why) {
  if (!done_) return;
  dial_error_ = why;
  if (reader_ != nullptr) return;  // the call fails, too
  const auto shown = plan_.credentials == nullptr ? nullptr : plan_.credentials->newest().credentials;
  const bool has_another = shown != nullptr && choice_ + 1 < shown->choices();
  if (!absl::IsUnauthenticated(why) || !has_another) return End(why);
  ++choice_;
  Dial();
}

// gRPC itself only knows that its end of the socket pair was closed.
void Inquiry::OnFinished() {
  if (status_.ok()) return End(std::move(view_));
  if (is_late_)
    return End(absl::DeadlineExceededError(absl::StrCat("no answer within ", absl::FormatDuration(limit_))));
  if (!dial_error_.ok()) return End(dial_error_);
  if (status_.error_code() == grpc::StatusCode::UNIMPLEMENTED)
    return End(absl::UnimplementedError("the coordinator is of an older version, which answers no questions"));
  End(absl::Status(static_cast<absl::StatusCode>(status_.error_code()), status_.error_message()));
}

void Inquiry::OnTooLate() {
  is_late_ = true;
  if (reader_ != nullptr) return context_->TryCancel();
  End(absl::DeadlineExceededError(absl::StrCat("no connection within ", absl::FormatDuration(limit_))));
}

void Inquiry::End(absl::StatusOr<v1::JobView> view) {
  if (!done_) return;
  loop_->Cancel(timer_);
  reader_.reset();
  context_.reset();
  channel_.reset();
  dialer_.reset();
  loop_->Post([alive = std::weak_ptr<bool>(alive_), done = std::exchange(done_, nullptr), view = std::move(view)] {
    if (!alive.expired()) done(view);
  });
}

}  // namespace muster::rendezvous
