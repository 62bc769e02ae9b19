#include "rendezvous/transport/peer_address.h"

#include <arpa/inet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>

namespace muster::rendezvous {
namespace {

constexpr uint16_t kAnyPort = 9;  // the discard port; nothing is sent to it
constexpr std::string_view kMappedPrefix = "::ffff:";

std::string Replace(std::string text, std::string_view from, std::string_view to) {
  for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
  return text;
}

}  // namespace

std::string PeerAddress(std::string_view peer) {
  const size_t scheme = peer.find(':');
  if (scheme == std::string_view::npos) return "";
  const std::string_view kind = peer.substr(0, scheme);
  if (kind != "ipv4" && kind != "ipv6") return "";
  std::string rest(peer.substr(scheme + 1));
  rest = Replace(Replace(Replace(std::move(rest), "%5B", "["), "%5D", "]"), "%25", "%");
  const size_t port = rest.rfind(':');
  if (port == std::string::npos) return "";
  rest.resize(port);
  if (rest.size() >= 2 && rest.front() == '[' && rest.back() == ']') rest = rest.substr(1, rest.size() - 2);
  rest.resize(std::min(rest.size(), rest.find('%')));
  if (rest.rfind(kMappedPrefix, 0) == 0 && rest.find('.') != std::string::npos)
    rest.erase(0, kMappedPrefix.size());
  return rest;
}

std::string LocalAddressTowards(const std::string& peer) {
  sockaddr_storage storage{};
  auto* v4 = reinterpret_cast<sockaddr_in*>(&storage);
  auto* v6 = reinterpret_cast<sockaddr_in6*>(&storage);
  socklen_t size = 0;
  if (inet_pton(AF_INET, peer.c_str(), &v4->sin_addr) == 1) {
    v4->sin_family = AF_INET;
    v4->sin_port = htons(kAnyPort);
    size = sizeof(*v4);
  } else if (inet_pton(AF_INET6, peer.c_str(), &v6->sin6_addr) == 1) {
    v6->sin6_family = AF_INET6;
    v6->sin6_port = htons(kAnyPort);
    size = sizeof(*v6);
  } else {
    return "";
  }
  const int fd = socket(storage.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return "";
  char text[INET6_ADDRSTRLEN] = "";
  if (connect(fd, reinterpret_cast<sockaddr*>(&storage), size) == 0 &&
      getsockname(fd, reinterpret_cast<sockaddr*>(&storage), &size) == 0) {
    const void* address = storage.ss_family == AF_INET ? static_cast<const void*>(&v4->sin_addr)
                                                       : static_cast<const void*>(&v6->sin6_addr);
    inet_ntop(storage.ss_family, address, text, sizeof(text));
  }
  close(fd);
  return text;
}

bool IsLoopback(const std::string& address) {
  in_addr v4{};
  if (inet_pton(AF_INET, address.c_str(), &v4) == 1) return (ntohl(v4.s_addr) >> 24) == 127;
  in6_addr v6{};
  return inet_pton(AF_INET6, address.c_str(), &v6) == 1 && IN6_IS_ADDR_LOOPBACK(&v6);
}

}  // namespace muster::rendezvous
