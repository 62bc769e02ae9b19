// The link between a host and its agent: messages over a unix stream socket, each preceded by its length (4 bytes,
// little-endian). Never blocks. Lives on the loop thread.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/io/event_loop.h"
#include "google/protobuf/message_lite.h"

namespace muster {

inline constexpr size_t kMaxFrameBytes = 4 * 1024 * 1024;   // a longer message is invalid and closes the link
inline constexpr size_t kMaxQueuedBytes = 8 * 1024 * 1024;  // more unread bytes close the link, too
inline constexpr size_t kReadStepBytes = 64 * 1024;
inline constexpr int kReadSteps = 16;  // at once, so that a side that sends without end does not keep the loop

class FramedLink {
 public:
  // payload is valid during the call only.
  using OnMessage = std::function<void(std::string_view payload)>;
  // Called once, never from inside a method of this class. why: for people ("the other side closed it").
  using OnClosed = std::function<void(const std::string& why)>;

  // Takes ownership of fd. Either callback may destroy the link.
  FramedLink(EventLoop* loop, int fd, OnMessage on_message, OnClosed on_closed);
  ~FramedLink();
  FramedLink(const FramedLink&) = delete;
  FramedLink& operator=(const FramedLink&) = delete;

  // False: the link is closed, or closes because the message is too large or too many bytes are queued.
  bool Send(const google::protobuf::MessageLite& message);

  void Close();  // immediately; no callback follows

  bool open() const { return fd_ >= 0; }
  bool drained() const { return queue_.size() == sent_; }  // the kernel has taken all of it

 private:
  void OnEvents(uint32_t events);
  void Read();
  void TakeFrames(const std::shared_ptr<bool>& alive, const OnMessage& on_message);
  void Write();
  void Fail(const std::string& why);
  void WatchFor(bool writing);

  EventLoop* const loop_;
  int fd_;
  const std::shared_ptr<const OnMessage> on_message_;  // shared: a callback may destroy the link
  const std::shared_ptr<const OnClosed> on_closed_;
  const std::shared_ptr<bool> alive_;  // false once closed by this side, or destroyed
  std::string input_;
  std::string queue_;
  size_t sent_ = 0;  // bytes of queue_ that the kernel has taken
  bool writing_ = false;
  bool peer_gone_ = false;  // the peer reads nothing any more
};

}  // namespace muster
