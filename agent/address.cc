#include "agent/address.h"

#include <ares.h>
#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/select.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

#include "agent/host/event_loop.h"
#include "proto/base/status_macros.h"
#include "rendezvous/peer_address.h"

namespace muster::agent {
namespace {

std::string Text(const sockaddr* address) {
  char text[INET6_ADDRSTRLEN] = "";
  if (address->sa_family == AF_INET) {
    inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in*>(address)->sin_addr, text, sizeof(text));
  } else if (address->sa_family == AF_INET6) {
    inet_ntop(AF_INET6, &reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr, text, sizeof(text));
  }
  return text;
}

// One way of writing each address, so that they compare.
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
  hints.ai_socktype = SOCK_STREAM;  // else each address comes once for each kind
  return hints;
}

// Until the lookup is done or the time is up.
void Drive(ares_channel channel, BootTime deadline, const Lookup& lookup) {
  while (!lookup.done && EventLoop::Now() < deadline) {
    fd_set readers, writers;
    FD_ZERO(&readers);
    FD_ZERO(&writers);
    const int count = ares_fds(channel, &readers, &writers);
    timeval most = absl::ToTimeval(std::max(absl::Milliseconds(1), deadline - EventLoop::Now()));
    timeval own{};
    timeval* wait = ares_timeout(channel, &most, &own);
    if (select(count, &readers, &writers, nullptr, wait) < 0 && errno != EINTR) return;
    ares_process(channel, &readers, &writers);
  }
}

bool IsOfThisMachine(const std::string& literal) {
  if (rendezvous::IsLoopback(literal)) return true;  // all of 127/8, though an interface has one of it only
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return false;
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owner(list, &freeifaddrs);
  const std::string wanted = Canonical(literal);
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr != nullptr && Text(entry->ifa_addr) == wanted) return true;
  }
  return false;
}

}  // namespace

bool IsLiteral(const std::string& host) {
  unsigned char buffer[sizeof(in6_addr)];
  return inet_pton(AF_INET, host.c_str(), buffer) == 1 || inet_pton(AF_INET6, host.c_str(), buffer) == 1;
}

absl::StatusOr<std::vector<std::string>> ResolveHost(const std::string& host, absl::Duration limit) {
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
  Drive(channel, EventLoop::Now() + limit, lookup);
  const bool answered = lookup.done;
  ares_destroy(channel);  // calls back, with ARES_EDESTRUCTION, what is not done
  if (!answered) return absl::DeadlineExceededError(what + "no name server answers");
  if (lookup.status == ARES_ETIMEOUT || lookup.status == ARES_ECONNREFUSED) {
    return absl::DeadlineExceededError(what + ares_strerror(lookup.status));
  }
  if (lookup.addresses.empty()) return absl::NotFoundError(what + ares_strerror(lookup.status));
  return lookup.addresses;
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
  return lookup.addresses.size() == 1 ? lookup.addresses.front() : "";
}

absl::StatusOr<bool> IsLocalAddress(const std::string& host, absl::Duration limit) {
  ASSIGN_OR_RETURN(const std::vector<std::string> addresses, ResolveHost(host, limit));
  return std::any_of(addresses.begin(), addresses.end(), &IsOfThisMachine);
}

}  // namespace muster::agent
