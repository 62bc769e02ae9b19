#include "rendezvous/transport/address.h"

#include <ares.h>
#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <set>

#include "absl/strings/match.h"
#include "base/core/status_macros.h"
#include "base/io/event_loop.h"
#include "base/wire/loopback.h"
#include "rendezvous/transport/peer_address.h"

namespace muster::rendezvous {
namespace {

constexpr absl::Duration kCancelPoll = absl::Milliseconds(50);

std::string Text(const sockaddr* address) {
  char text[INET6_ADDRSTRLEN] = "";
  if (address->sa_family == AF_INET) {
    inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in*>(address)->sin_addr, text, sizeof(text));
  } else if (address->sa_family == AF_INET6) {
    inet_ntop(AF_INET6, &reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr, text, sizeof(text));
  }
  return text;
}

// Writes each address in one way, so that addresses can be compared.
std::string Canonical(const std::string& literal) {
  in6_addr v6{};
  char text[INET6_ADDRSTRLEN] = "";
  if (inet_pton(AF_INET6, literal.c_str(), &v6) != 1) return literal;
  return inet_ntop(AF_INET6, &v6, text, sizeof(text));
}

struct Lookup {
  bool done = false;
  int status = ARES_SUCCESS;
  std::vector<std::string> addresses;
};

void OnAddresses(void* arg, int status, int /*timeouts*/, ares_addrinfo* result) {
  auto* lookup = static_cast<Lookup*>(arg);
  lookup->done = true;
  lookup->status = status;
  if (result == nullptr) return;
  for (const ares_addrinfo_node* node = result->nodes; node != nullptr; node = node->ai_next) {
    if (std::string text = Text(node->ai_addr); !text.empty()) lookup->addresses.push_back(std::move(text));
  }
  ares_freeaddrinfo(result);
}

ares_addrinfo_hints AnyStream() {
  ares_addrinfo_hints hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;  // otherwise each address appears once for each socket type
  return hints;
}

// Collects the sockets for poll(). c-ares also offers select(), which aborts on descriptors above 1,023.
size_t Sockets(ares_channel channel, std::array<pollfd, ARES_GETSOCK_MAXNUM>* polled) {
  std::array<ares_socket_t, ARES_GETSOCK_MAXNUM> sockets{};
  const auto wanted = static_cast<unsigned>(ares_getsock(channel, sockets.data(), ARES_GETSOCK_MAXNUM));
  size_t count = 0;
  for (unsigned i = 0; i < ARES_GETSOCK_MAXNUM; ++i) {
    const int events =
        (ARES_GETSOCK_READABLE(wanted, i) ? POLLIN : 0) | (ARES_GETSOCK_WRITABLE(wanted, i) ? POLLOUT : 0);
    if (events != 0) (*polled)[count++] = {sockets[i], static_cast<int16_t>(events), 0};
  }
  return count;
}

// Runs the channel until the lookup is done, cancelled, or the deadline has passed.
void Drive(ares_channel channel, BootTime deadline, const std::atomic<bool>* cancelled, const Lookup& lookup) {
  const auto is_cancelled = [cancelled] { return cancelled != nullptr && *cancelled; };
  while (!lookup.done && EventLoop::Now() < deadline && !is_cancelled()) {
    std::array<pollfd, ARES_GETSOCK_MAXNUM> polled{};
    const size_t count = Sockets(channel, &polled);
    const absl::Duration left = std::min(deadline - EventLoop::Now(), kCancelPoll);
    timeval most = absl::ToTimeval(std::max(absl::Milliseconds(1), left));
    timeval own{};
    const absl::Duration wait = absl::DurationFromTimeval(*ares_timeout(channel, &most, &own));
    const int ready = poll(polled.data(), count, static_cast<int>(absl::ToInt64Milliseconds(wait)) + 1);
    if (ready < 0 && errno != EINTR) return;
    if (ready <= 0) ares_process_fd(channel, ARES_SOCKET_BAD, ARES_SOCKET_BAD);  // handles timeouts
    for (size_t i = 0; ready > 0 && i < count; ++i) {
      if (polled[i].revents == 0) continue;
      const bool writable = (polled[i].revents & POLLOUT) != 0;
      const bool readable = (polled[i].revents & ~POLLOUT) != 0;
      ares_process_fd(channel, readable ? polled[i].fd : ARES_SOCKET_BAD,
                      writable ? polled[i].fd : ARES_SOCKET_BAD);
    }
  }
}

std::vector<std::string> InterfaceAddresses() {
  std::vector<std::string> addresses;
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return addresses;
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owner(list, &freeifaddrs);
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr) continue;
    if (std::string text = Text(entry->ifa_addr); !text.empty()) addresses.push_back(std::move(text));
  }
  return addresses;
}

bool IsOfOneLink(const std::string& literal) {
  return literal.rfind("fe80:", 0) == 0 || literal.rfind("169.254.", 0) == 0;
}

}  // namespace

std::vector<std::string> OwnAddresses() {
  std::vector<std::string> own = InterfaceAddresses();
  const auto useless = [](const std::string& one) { return IsLoopback(one) || IsOfOneLink(one); };
  own.erase(std::remove_if(own.begin(), own.end(), useless), own.end());
  return own;
}

bool IsLiteral(const std::string& host) {
  unsigned char buffer[sizeof(in6_addr)];
  return inet_pton(AF_INET, host.c_str(), buffer) == 1 || inet_pton(AF_INET6, host.c_str(), buffer) == 1;
}

bool IsOwnAddress(const std::string& literal) {
  if (IsLoopback(literal)) return true;  // all of 127/8; the interface lists only one address of it
  const std::vector<std::string> own = InterfaceAddresses();
  return std::find(own.begin(), own.end(), Canonical(literal)) != own.end();
}

absl::StatusOr<std::vector<std::string>> ResolveHost(const std::string& host, absl::Duration limit,
                                                     const std::atomic<bool>* cancelled) {
  if (IsLiteral(host)) return std::vector<std::string>{host};
  const std::string what = "resolving " + host + ": ";
  static const int library = ares_library_init(ARES_LIB_INIT_ALL);
  ares_channel channel = nullptr;
  if (const int status = library != ARES_SUCCESS ? library : ares_init(&channel); status != ARES_SUCCESS) {
    return absl::InternalError(what + ares_strerror(status));
  }
  Lookup lookup;
  const ares_addrinfo_hints hints = AnyStream();
  ares_getaddrinfo(channel, host.c_str(), nullptr, &hints, &OnAddresses, &lookup);
  Drive(channel, EventLoop::Now() + limit, cancelled, lookup);
  const bool answered = lookup.done;
  ares_destroy(channel);  // ends pending lookups with ARES_EDESTRUCTION
  if (!answered) return absl::DeadlineExceededError(what + "no name server answers");
  if (lookup.status == ARES_ETIMEOUT || lookup.status == ARES_ECONNREFUSED) {
    return absl::DeadlineExceededError(what + ares_strerror(lookup.status));
  }
  if (lookup.addresses.empty()) return absl::NotFoundError(what + ares_strerror(lookup.status));
  return lookup.addresses;
}

absl::StatusOr<std::vector<std::string>> ResolveHostOrSelf(const std::string& host, absl::Duration limit,
                                                           const std::atomic<bool>* cancelled) {
  absl::StatusOr<std::vector<std::string>> addresses = ResolveHost(host, limit, cancelled);
  if (addresses.ok()) return addresses;
  std::array<char, 256> own{};
  const bool is_own = gethostname(own.data(), own.size() - 1) == 0 && absl::EqualsIgnoreCase(host, own.data());
  return is_own ? std::vector<std::string>{"127.0.0.1"} : addresses;
}

std::string HostsFileAddress(const std::string& host) {
  if (IsLiteral(host)) return host;
  char files_only[] = "f";
  ares_options options{};
  options.lookups = files_only;
  static const int library = ares_library_init(ARES_LIB_INIT_ALL);
  ares_channel channel = nullptr;
  if (library != ARES_SUCCESS || ares_init_options(&channel, &options, ARES_OPT_LOOKUPS) != ARES_SUCCESS)
    return "";
  Lookup lookup;
  const ares_addrinfo_hints hints = AnyStream();
  ares_getaddrinfo(channel, host.c_str(), nullptr, &hints, &OnAddresses, &lookup);
  ares_destroy(channel);
  // /etc/hosts may contain the same line twice.
  const std::set<std::string> different(lookup.addresses.begin(), lookup.addresses.end());
  return different.size() == 1 ? *different.begin() : "";
}

absl::StatusOr<bool> IsLocalAddress(const std::string& host, absl::Duration limit) {
  ASSIGN_OR_RETURN(const std::vector<std::string> addresses, ResolveHostOrSelf(host, limit));
  return std::any_of(addresses.begin(), addresses.end(), &IsOwnAddress);
}

}  // namespace muster::rendezvous
