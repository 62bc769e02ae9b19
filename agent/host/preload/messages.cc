#include "agent/host/preload/messages.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "absl/status/status.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/io/event_loop.h"

namespace muster::host {

absl::Status SendMessage(int socket, const std::vector<std::string>& fields, const std::vector<int>& fds) {
  std::string text = absl::StrJoin(fields, absl::string_view("\0", 1));
  iovec part{text.data(), text.size()};
  std::vector<char> control(fds.empty() ? 0 : CMSG_SPACE(fds.size() * sizeof(int)));
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (!fds.empty()) {
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    cmsghdr* const rights = CMSG_FIRSTHDR(&message);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(fds.size() * sizeof(int));
    std::memcpy(CMSG_DATA(rights), fds.data(), fds.size() * sizeof(int));
  }
  while (sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT) < 0) {
    if (errno != EINTR) return absl::ErrnoToStatus(errno, "sending to the preloading Python");
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::string>> ReceiveMessage(int socket, BootTime until) {
  std::string text(kMaxPreloadMessage, '\0');
  while (true) {
    const ssize_t got = recv(socket, text.data(), text.size(), MSG_DONTWAIT);
    if (got == 0) return absl::UnavailableError("the preloading Python has closed its end");
    if (got > 0) {
      text.resize(static_cast<size_t>(got));
      return absl::StrSplit(text, '\0');
    }
    if (errno == EINTR) continue;
    if (errno != EAGAIN) return absl::ErrnoToStatus(errno, "receiving from the preloading Python");
    const absl::Duration left = until - EventLoop::Now();
    if (left <= absl::ZeroDuration()) return absl::DeadlineExceededError("the preloading Python does not answer");
    pollfd ready{socket, POLLIN, 0};
    poll(&ready, 1, static_cast<int>(absl::ToInt64Milliseconds(absl::Ceil(left, absl::Milliseconds(1)))));
  }
}

std::string JoinTexts(const std::vector<std::string>& texts) {
  std::string joined;
  for (const std::string& text : texts) {
    joined += text;
    joined += '\0';
  }
  return joined;
}

}  // namespace muster::host
