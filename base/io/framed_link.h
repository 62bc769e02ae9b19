// Messages over a unix stream socket, each with its length before it (4 bytes, little-endian): the link between a
// host and its agent. Never blocks. Lives on the loop thread.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/io/event_loop.h"
#include "google/protobuf/message_lite.h"

namespace muster {

inline constexpr size_t kMaxFrameBytes = 4 * 1024 * 1024;   // a longer one is garbage: the link is closed
inline constexpr size_t kMaxQueuedBytes = 8 * 1024 * 1024;  // written but not taken by the peer: it is closed, too
inline constexpr size_t kReadStepBytes = 64 * 1024;

class FramedLink {
 public:
  // payload is valid during the call only.
  using OnMessage = std::function<void(std::string_view payload)>;
  // Once, never from inside a call of this class; why is for people ("the other side closed it").
  using OnClosed = std::function<void(const std::string& why)>;

  // Owns fd from now on. Either callback may destroy the link.
  FramedLink(EventLoop* loop, int fd, OnMessage on_message, OnClosed on_closed);
  ~FramedLink();
  FramedLink(const FramedLink&) = delete;
  FramedLink& operator=(const FramedLink&) = delete;

  // False: the link is closed, or closes because of this (too large, or too much waits already).
  bool Send(const google::protobuf::MessageLite& message);

  void Close();  // now; nothing is called any more

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
  const std::shared_ptr<const OnMessage> on_message_;  // shared: a callback may destroy us
  const std::shared_ptr<const OnClosed> on_closed_;
  const std::shared_ptr<bool> alive_;  // false once closed by our side, or destroyed
  std::string input_;
  std::string queue_;
  size_t sent_ = 0;  // of queue_
  bool writing_ = false;
  bool deaf_ = false;  // the peer takes nothing any more
};

}  // namespace muster
