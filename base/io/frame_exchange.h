// One message each way over a unix stream socket, in the form of FramedLink, before a link takes the socket over.
// A descriptor may come with a message. Nothing beyond the message is read, so the link finds what follows. Any
// thread.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/io/owned_fd.h"
#include "google/protobuf/message_lite.h"

namespace muster {

inline constexpr size_t kMaxFirstFrameBytes = 1024 * 1024;  // a longer message is an error

class IncomingFrame {
 public:
  explicit IncomingFrame(size_t most_bytes = kMaxFirstFrameBytes) : most_bytes_(most_bytes) {}

  // Reads what has arrived. True: the message is complete. False: more must come. Unavailable: the other side
  // closed the socket; InvalidArgument: it sent something else.
  absl::StatusOr<bool> Read(int fd);

  std::string_view payload() const;  // once it is complete
  OwnedFd TakeDescriptor() { return std::move(descriptor_); }

 private:
  size_t Missing() const;

  size_t most_bytes_;  // of the payload
  std::string bytes_;  // header and payload
  OwnedFd descriptor_;
};

class OutgoingFrame {
 public:
  // descriptor: sent with the message, and stays the caller's; -1: none.
  explicit OutgoingFrame(const google::protobuf::MessageLite& message, int descriptor = -1);

  std::string_view payload() const;

  // Writes what the kernel takes. True: all of it. False: more must follow. Unavailable: the other side is gone.
  absl::StatusOr<bool> Write(int fd);

 private:
  std::string bytes_;
  int descriptor_;
  size_t sent_ = 0;
};

// What a thread that waits for a message does when another descriptor can be read.
struct Meanwhile {
  int fd = -1;  // -1: none
  std::function<void()> act = {};
};

// Waits for the whole message. DeadlineExceeded: it did not come within the limit.
absl::Status AwaitFrame(int fd, absl::Duration limit, IncomingFrame* frame, const Meanwhile& meanwhile = {});

// The same at once, for a short message on a socket in which little is queued: an error if the kernel does not
// take all of it.
absl::Status SendFrame(int fd, const google::protobuf::MessageLite& message, int descriptor = -1);

}  // namespace muster
