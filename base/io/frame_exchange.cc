#include "base/io/frame_exchange.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "base/io/event_loop.h"
#include "base/io/frame_header.h"

namespace muster {
namespace {

constexpr absl::Duration kLongestPoll = absl::Minutes(1);  // so that an endless wait fits poll(2)
constexpr size_t kReadBytes = 64 * 1024;

// Room for the one descriptor that may come with a message.
struct Control {
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> bytes = {};
};

OwnedFd DescriptorIn(msghdr* header) {
  cmsghdr* const control = CMSG_FIRSTHDR(header);
  const bool one = control != nullptr && control->cmsg_level == SOL_SOCKET && control->cmsg_type == SCM_RIGHTS &&
                   control->cmsg_len == CMSG_LEN(sizeof(int));
  if (!one) return OwnedFd();
  int fd = -1;
  std::memcpy(&fd, CMSG_DATA(control), sizeof(fd));
  return OwnedFd(fd);
}

}  // namespace

size_t IncomingFrame::Missing() const {
  if (bytes_.size() < kFrameHeaderBytes) return kFrameHeaderBytes - bytes_.size();
  return kFrameHeaderBytes + ParseFrameHeader(bytes_.data()) - bytes_.size();
}

absl::StatusOr<bool> IncomingFrame::Read(int fd) {
  for (size_t missing = Missing(); missing > 0; missing = Missing()) {
    std::string buffer(std::min(missing, kReadBytes), '\0');
    Control control;
    iovec part{buffer.data(), buffer.size()};
    msghdr header{};
    header.msg_iov = &part;
    header.msg_iovlen = 1;
    header.msg_control = control.bytes.data();
    header.msg_controllen = CMSG_LEN(sizeof(int));  // of several descriptors the kernel then keeps the first alone
    const ssize_t got = recvmsg(fd, &header, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) return false;
    if (got < 0) return absl::ErrnoToStatus(errno, "reading from a socket");
    if (got == 0) return absl::UnavailableError("the other side closed the connection");
    if (OwnedFd passed = DescriptorIn(&header); passed.valid()) descriptor_ = std::move(passed);
    bytes_.append(buffer.data(), static_cast<size_t>(got));
    if (bytes_.size() == kFrameHeaderBytes && ParseFrameHeader(bytes_.data()) > most_bytes_) {
      return absl::InvalidArgumentError(
          absl::StrCat("invalid data: a message length of ", ParseFrameHeader(bytes_.data()), " bytes"));
    }
  }
  return true;
}

std::string_view IncomingFrame::payload() const { return std::string_view(bytes_).substr(kFrameHeaderBytes); }

absl::Status AwaitFrame(int fd, absl::Duration limit, IncomingFrame* frame, const Meanwhile& meanwhile) {
  const BootTime until = EventLoop::Now() + limit;
  while (true) {
    const absl::StatusOr<bool> complete = frame->Read(fd);
    if (!complete.ok()) return complete.status();
    if (*complete) return absl::OkStatus();
    const absl::Duration left = until - EventLoop::Now();
    if (left <= absl::ZeroDuration()) {
      return absl::DeadlineExceededError(absl::StrCat("it said nothing for ", absl::FormatDuration(limit)));
    }
    pollfd polled[] = {{fd, POLLIN, 0}, {meanwhile.fd, POLLIN, 0}};  // a negative descriptor is left out
    poll(polled, 2, static_cast<int>(absl::ToInt64Milliseconds(std::min(left, kLongestPoll))) + 1);
    if (polled[1].revents != 0) meanwhile.act();
  }
}

OutgoingFrame::OutgoingFrame(const google::protobuf::MessageLite& message, int descriptor)
    : descriptor_(descriptor) {
  AppendFrameHeader(message.ByteSizeLong(), &bytes_);
  message.AppendToString(&bytes_);
}

std::string_view OutgoingFrame::payload() const { return std::string_view(bytes_).substr(kFrameHeaderBytes); }

absl::StatusOr<bool> OutgoingFrame::Write(int fd) {
  while (sent_ < bytes_.size()) {
    Control control;
    iovec part{bytes_.data() + sent_, bytes_.size() - sent_};
    msghdr header{};
    header.msg_iov = &part;
    header.msg_iovlen = 1;
    if (descriptor_ >= 0 && sent_ == 0) {
      header.msg_control = control.bytes.data();
      header.msg_controllen = control.bytes.size();
      cmsghdr* const rights = CMSG_FIRSTHDR(&header);
      rights->cmsg_level = SOL_SOCKET;
      rights->cmsg_type = SCM_RIGHTS;
      rights->cmsg_len = CMSG_LEN(sizeof(int));
      std::memcpy(CMSG_DATA(rights), &descriptor_, sizeof(descriptor_));
    }
    const ssize_t put = sendmsg(fd, &header, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (put < 0 && errno == EINTR) continue;
    if (put < 0 && errno == EAGAIN) return false;
    if (put < 0) return absl::UnavailableError(absl::StrCat("writing to a socket: ", std::strerror(errno)));
    sent_ += static_cast<size_t>(put);
  }
  return true;
}

absl::Status SendFrame(int fd, const google::protobuf::MessageLite& message, int descriptor) {
  const absl::StatusOr<bool> sent = OutgoingFrame(message, descriptor).Write(fd);
  if (!sent.ok()) return sent.status();
  return *sent ? absl::OkStatus() : absl::UnavailableError("the socket does not take a message");
}

}  // namespace muster
