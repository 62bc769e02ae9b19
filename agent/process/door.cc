#include "agent/process/door.h"

#include <sys/epoll.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/core/status_macros.h"
#include "base/io/local_door.h"

namespace muster::agent {

struct Door::Visitor {
  OwnedFd socket;
  IncomingFrame question{kMaxAskedBytes};
  bool has_asked = false;
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
  if (visitor->has_asked || (events & EPOLLIN) == 0) return Remove(visitor);  // it has hung up
  const absl::StatusOr<bool> whole = visitor->question.Read(visitor->socket.get());
  if (!whole.ok()) return Remove(visitor);
  if (*whole) Hear(visitor);
}

void Door::Hear(Visitor* visitor) {
  v1::Question question;
  const std::string_view bytes = visitor->question.payload();
  if (!question.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) return Remove(visitor);
  visitor->has_asked = true;
  v1::Answer answer = named_;
  if (question.names_only()) return Reply(visitor, answer);
  std::optional<v1::JobView> view = ways_.look();
  if (!view && EventLoop::Now() < kept_at_ + kViewKept) view = kept_;
  if (!view) {
    if (std::exchange(asking_, true)) return;  // that answer serves this one, too
    return ways_.ask([this](const absl::StatusOr<v1::JobView>& answered) { OnAnswer(answered); });
  }
  *answer.mutable_view() = *std::move(view);
  Reply(visitor, answer);
}

void Door::OnAnswer(const absl::StatusOr<v1::JobView>& view) {
  asking_ = false;
  v1::Answer answer = named_;
  if (view.ok()) {
    *answer.mutable_view() = *view;
    kept_ = *view;
    kept_at_ = EventLoop::Now();
  } else {
    answer.set_why_not(std::string(AsStd(view.status().message())));
  }
  std::vector<Visitor*> waiting;
  for (const auto& visitor : visitors_) {
    if (visitor->has_asked && !visitor->answer) waiting.push_back(visitor.get());
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

}  // namespace muster::agent
