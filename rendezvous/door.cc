#include "rendezvous/door.h"

#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/core/status_macros.h"
#include "base/io/local_door.h"

namespace muster::rendezvous {

struct Door::Visitor {
  OwnedFd socket;
  IncomingFrame incoming{kMaxAskedBytes};
  std::optional<v1::Question> question;  // nullopt: it has not asked yet
  std::optional<OutgoingFrame> answer;
  EventLoop::TimerId limit = 0;
};

Door::Door(EventLoop* loop, const std::string& host_id, v1::Answer named, Ways ways)
    : loop_(loop), name_(absl::StrCat(kDoorPrefix, host_id)), named_(std::move(named)), ways_(std::move(ways)) {}

Door::~Door() {
  while (!visitors_.empty()) Remove(visitors_.front().get());
  Close();
}

void Door::Close() {
  if (listener_.valid()) loop_->Unwatch(listener_.get());
  listener_.Reset();
}

// The job needs no door, so an error is not logged: the next tick tries again.
void Door::OnTick() {
  if (listener_.valid()) return;
  absl::StatusOr<OwnedFd> listener = ListenAtDoor(name_);
  if (!listener.ok()) return;
  listener_ = *std::move(listener);
  loop_->Watch(listener_.get(), EPOLLIN, [this](uint32_t) { Accept(); });
}

void Door::Accept() {
  OwnedFd socket(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!socket.valid() && errno != EAGAIN && errno != ECONNABORTED && errno != EINTR)
    return Close();  // no descriptor
  if (!socket.valid() || !IsOursOrRoots(socket.get()) || visitors_.size() >= kMaxVisitors) return;
  Visitor* const visitor = visitors_.emplace_back(std::make_unique<Visitor>()).get();
  visitor->socket = std::move(socket);
  visitor->limit = loop_->After(kVisitLimit, [this, visitor] { Remove(visitor); });
  loop_->Watch(visitor->socket.get(), EPOLLIN, [this, visitor](uint32_t events) { OnEvents(visitor, events); });
}

void Door::OnEvents(Visitor* visitor, uint32_t events) {
  if (visitor->answer) return Write(visitor);
  if (visitor->question || (events & EPOLLIN) == 0) return Remove(visitor);  // it has hung up
  const absl::StatusOr<bool> whole = visitor->incoming.Read(visitor->socket.get());
  if (!whole.ok()) return Remove(visitor);
  if (*whole) Hear(visitor);
}

void Door::Hear(Visitor* visitor) {
  v1::Question question;
  const std::string_view bytes = visitor->incoming.payload();
  if (!question.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) return Remove(visitor);
  visitor->question = std::move(question);
  switch (visitor->question->kind()) {
    case v1::Question::KIND_NAME:
      return Reply(visitor, named_);
    case v1::Question::KIND_END:
      return AwaitEnd(visitor);
    case v1::Question::KIND_STATUS:
    case v1::Question::KIND_STACKS:
    case v1::Question::KIND_EVENTS:
    case v1::Question::KIND_RANK:
    case v1::Question::KIND_ORDER:
      return Pass(visitor);
    default: {
      v1::Answer answer = named_;
      answer.set_why_not("the job runs an older version of muster, which does not know this question");
      return Reply(visitor, answer);
    }
  }
}

void Door::AwaitEnd(Visitor* visitor) {
  if (end_) return Reply(visitor, *end_);
  const auto waiting = std::count_if(visitors_.begin(), visitors_.end(), [](const auto& one) {
    return one->question && one->question->kind() == v1::Question::KIND_END && !one->answer;
  });
  if (static_cast<size_t>(waiting) > kMaxWaiting) {
    v1::Answer answer = named_;
    answer.set_why_not("too many wait for the end of this job here");
    return Reply(visitor, answer);
  }
  loop_->Cancel(visitor->limit);
}

void Door::Pass(Visitor* visitor) {
  v1::Question question;
  question.set_kind(visitor->question->kind());
  question.set_rank(visitor->question->rank());
  if (visitor->question->has_order()) *question.mutable_order() = visitor->question->order();
  v1::Answer answer = named_;
  if (const v1::JobView* const kept = kept_.Find(EventLoop::Now(), question)) {
    *answer.mutable_view() = *kept;
    return Reply(visitor, answer);
  }
  if (std::optional<v1::JobView> view = ways_.look(question)) {
    kept_.Keep(EventLoop::Now(), question, *view);
    *answer.mutable_view() = *std::move(view);
    return Reply(visitor, answer);
  }
  const auto [open, is_first] = open_.try_emplace(question.kind(), question);
  if (is_first) {
    return ways_.ask(
        question, [this, question](const absl::StatusOr<v1::JobView>& answered) { OnAnswer(question, answered); });
  }
  if (open->second.rank() == question.rank() && open->second.order().id() == question.order().id())
    return;  // that answer serves this one, too
  answer.set_why_not("something else of this kind is being asked: ask again");
  Reply(visitor, answer);
}

void Door::OnAnswer(const v1::Question& question, const absl::StatusOr<v1::JobView>& view) {
  open_.erase(question.kind());
  v1::Answer answer = named_;
  if (view.ok()) {
    *answer.mutable_view() = *view;
    kept_.Keep(EventLoop::Now(), question, *view);
  } else {
    answer.set_why_not(std::string(AsStd(view.status().message())));
  }
  ReplyToAll(answer, question.kind());
}

// A node that leaves the job does not know how that ends.
void Door::OnEnd(const v1::Exit& exit) {
  v1::Answer answer = named_;
  if (exit.has_verdict()) {
    answer.mutable_end()->set_exit_code(exit.verdict().exit_code());
    answer.mutable_end()->set_reason(exit.verdict().reason());
    if (ways_.last_events) *answer.mutable_end()->mutable_last() = ways_.last_events();
  } else {
    answer.set_why_not(absl::StrCat("this node leaves the job: ", exit.reason()));
  }
  end_ = answer;
  ReplyToAll(answer, v1::Question::KIND_END);
}

// To all who have asked this.
void Door::ReplyToAll(const v1::Answer& answer, v1::Question::Kind kind) {
  std::vector<Visitor*> waiting;
  for (const auto& visitor : visitors_) {
    if (visitor->question && !visitor->answer && visitor->question->kind() == kind)
      waiting.push_back(visitor.get());
  }
  for (Visitor* const visitor : waiting) Reply(visitor, answer);
}

void Door::Reply(Visitor* visitor, const v1::Answer& answer) {
  visitor->answer.emplace(answer);
  Write(visitor);
}

void Door::Write(Visitor* visitor) {
  const absl::StatusOr<bool> all = visitor->answer->Write(visitor->socket.get());
  if (!all.ok() || *all) return Remove(visitor);
  loop_->Watch(visitor->socket.get(), EPOLLOUT, [this, visitor](uint32_t events) { OnEvents(visitor, events); });
}

void Door::Remove(Visitor* visitor) {
  loop_->Cancel(visitor->limit);
  loop_->Unwatch(visitor->socket.get());
  visitors_.remove_if([visitor](const auto& one) { return one.get() == visitor; });
}

}  // namespace muster::rendezvous
