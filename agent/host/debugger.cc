#include "agent/host/debugger.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "base/io/owned_fd.h"
#include "base/proc/keyboard.h"

namespace muster::host {
namespace {

// Why debugpy could not listen there; empty: it can. Connections of an earlier round that linger on the port are
// no obstacle, listeners are.
std::string WhyNotListen(uint16_t port) {
  const OwnedFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int on = 1;
  setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(port);
  const bool listens = bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0 &&
                       listen(fd.get(), 1) == 0;
  if (listens) return "";
  return errno == EADDRINUSE ? "is in use; choose another" : std::strerror(errno);
}

}  // namespace

std::optional<Undebuggable> CheckDebugger(const DebuggedRank& debugged, const v1::Round& round, int slots) {
  const bool is_here = LocalRankOf(debugged, round, slots).has_value();
  const std::string no_port = is_here && debugged.port ? WhyNotListen(*debugged.port) : "";
  return FindUndebuggable(debugged, round, slots, HasDialogue(), no_port);
}

}  // namespace muster::host
