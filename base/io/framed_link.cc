#include "base/io/framed_link.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <utility>

#include "base/io/frame_header.h"

namespace muster {

FramedLink::FramedLink(EventLoop* loop, int fd, OnMessage on_message, OnClosed on_closed)
    : loop_(loop),
      fd_(fd),
      on_message_(std::make_shared<const OnMessage>(std::move(on_message))),
      on_closed_(std::make_shared<const OnClosed>(std::move(on_closed))),
      alive_(std::make_shared<bool>(true)) {
  fcntl(fd_, F_SETFL, fcntl(fd_, F_GETFL) | O_NONBLOCK);
  fcntl(fd_, F_SETFD, FD_CLOEXEC);
  loop_->Watch(fd_, EPOLLIN, [this](uint32_t events) { OnEvents(events); });
}

FramedLink::~FramedLink() { Close(); }

void FramedLink::Close() {
  *alive_ = false;
  if (fd_ < 0) return;
  loop_->Unwatch(fd_);
  close(fd_);
  fd_ = -1;
}

bool FramedLink::Send(const google::protobuf::MessageLite& message) {
  if (fd_ < 0 || peer_gone_) return false;
  const size_t size = message.ByteSizeLong();
  if (size > kMaxFrameBytes) {
    Fail("a message of " + std::to_string(size) + " bytes exceeds the limit");
    return false;
  }
  if (queue_.size() - sent_ + kFrameHeaderBytes + size > kMaxQueuedBytes) {
    Fail("the other side does not read");
    return false;
  }
  AppendFrameHeader(size, &queue_);
  message.AppendToString(&queue_);
  Write();
  return fd_ >= 0 && !peer_gone_;
}

void FramedLink::OnEvents(uint32_t events) {
  if (events & EPOLLOUT) Write();  // invokes no callback
  if (fd_ >= 0 && (events & (EPOLLIN | EPOLLHUP | EPOLLERR))) Read();
}

void FramedLink::Read() {
  const std::shared_ptr<bool> alive = alive_;
  const std::shared_ptr<const OnMessage> on_message = on_message_;
  for (int i = 0; i < kReadSteps && fd_ >= 0; ++i) {
    const size_t size = input_.size();
    input_.resize(size + kReadStepBytes);
    const ssize_t got = recv(fd_, input_.data() + size, kReadStepBytes, 0);
    const int error = errno;
    input_.resize(size + (got > 0 ? static_cast<size_t>(got) : 0));
    if (got > 0) {
      TakeFrames(alive, *on_message);
      if (!*alive) return;
      continue;
    }
    if (got == 0) {
      Fail("the other side closed it");
    } else if (error != EAGAIN && error != EINTR) {
      Fail(std::strerror(error));
    }
    if (got < 0 && error == EINTR) continue;
    return;
  }
}

void FramedLink::TakeFrames(const std::shared_ptr<bool>& alive, const OnMessage& on_message) {
  size_t at = 0;
  while (input_.size() - at >= kFrameHeaderBytes) {
    const size_t length = ParseFrameHeader(input_.data() + at);
    if (length > kMaxFrameBytes) {
      Fail("invalid data: a message length of " + std::to_string(length) + " bytes");
      return;
    }
    if (input_.size() - at - kFrameHeaderBytes < length) break;
    on_message(std::string_view(input_).substr(at + kFrameHeaderBytes, length));
    if (!*alive || fd_ < 0) return;
    at += kFrameHeaderBytes + length;
  }
  input_.erase(0, at);
  if (input_.empty() && input_.capacity() > kReadStepBytes) input_.shrink_to_fit();
}

void FramedLink::Write() {
  while (fd_ >= 0 && sent_ < queue_.size()) {
    const ssize_t put = send(fd_, queue_.data() + sent_, queue_.size() - sent_, MSG_NOSIGNAL);
    if (put >= 0) {
      sent_ += static_cast<size_t>(put);
    } else if (errno == EAGAIN) {
      break;
    } else if (errno != EINTR) {
      // The peer is gone, but its last messages may still be unread: their end closes the link.
      peer_gone_ = true;
      sent_ = queue_.size();
    }
  }
  if (sent_ == queue_.size()) {
    queue_.clear();
    sent_ = 0;
  } else if (sent_ > queue_.size() / 2) {
    queue_.erase(0, sent_);
    sent_ = 0;
  }
  WatchFor(!queue_.empty());
}

void FramedLink::WatchFor(bool writing) {
  if (writing == writing_ || fd_ < 0) return;
  writing_ = writing;
  loop_->Watch(fd_, writing ? EPOLLIN | EPOLLOUT : EPOLLIN, [this](uint32_t events) { OnEvents(events); });
}

void FramedLink::Fail(const std::string& why) {
  if (fd_ < 0) return;
  loop_->Unwatch(fd_);
  close(fd_);
  fd_ = -1;
  loop_->Post([why, alive = alive_, on_closed = on_closed_] {
    if (*alive) (*on_closed)(why);
  });
}

}  // namespace muster
