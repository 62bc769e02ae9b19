#include "rendezvous/transport/peer_address.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdint>
#include <optional>

#include "base/io/owned_fd.h"
#include "rendezvous/gate/tcp.h"

namespace muster::rendezvous {
namespace {

constexpr uint16_t kAnyPort = 9;  // the discard port; nothing is sent to it

}  // namespace

std::string LocalAddressTowards(const std::string& peer) {
  const std::optional<SocketAddress> target = ParseSocketAddress(peer, kAnyPort);
  if (!target) return "";
  const OwnedFd fd(socket(target->storage.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  SocketAddress own;
  own.size = sizeof(own.storage);
  const bool found = fd.valid() && connect(fd.get(), target->get(), target->size) == 0 &&
                     getsockname(fd.get(), own.get(), &own.size) == 0;
  return found ? IpOf(own) : "";
}

}  // namespace muster::rendezvous
