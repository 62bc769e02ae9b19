// Sockets and addresses of TCP. Any thread.
#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/io/owned_fd.h"

namespace muster::rendezvous {

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t size = 0;

  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
  sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }
};

// ip: without brackets. nullopt: it is no IP address.
std::optional<SocketAddress> ParseSocketAddress(const std::string& ip, uint16_t port);
// The IP address, without scope; an IPv4 address in IPv6's form as such.
std::string IpOf(const SocketAddress& address);
// "10.1.2.3:29400", "[::1]:29400".
std::optional<SocketAddress> ParseAddressAndPort(std::string_view text);
uint16_t PortOf(const SocketAddress& address);

// For a connection in use: sends small messages at once, and lets the kernel give up on a peer that acknowledges
// nothing for this time.
void PrepareConnection(int fd, absl::Duration dead_after);

// Lets the kernel hold less of what a peer sends that is not read yet. For a connection that was accepted: set on
// the one that listens, it would bound what a connection ever receives. Returns the size before; 0: the kernel
// (before Linux 5.15) could not let the buffer grow again, and nothing has changed.
int ShrinkReceiveBuffer(int fd);
// Back to that size, and as large later as the kernel likes. before: what ShrinkReceiveBuffer has returned.
void ReleaseReceiveBuffer(int fd, int before);

// Two connected, non-blocking Unix sockets. The first one has a name that no other socket has, in the form in
// which gRPC tells the peer of the second one.
struct NamedPair {
  OwnedFd ours;
  OwnedFd theirs;
  std::string name;  // "unix-abstract:0000a"
};
absl::StatusOr<NamedPair> MakeNamedPair();

}  // namespace muster::rendezvous
