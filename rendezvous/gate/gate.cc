#include "rendezvous/gate/gate.h"

#include <malloc.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/core/check.h"
#include "base/core/status_macros.h"
#include "rendezvous/gate/guarded.h"
#include "rendezvous/gate/plain.h"
#include "rendezvous/gate/tcp.h"

namespace muster::rendezvous {
namespace {

constexpr int kBacklog = 4'096;                          // the kernel takes at most net.core.somaxconn
constexpr int kAcceptsAtOnce = 64;                       // between other events
constexpr int kAcceptsPerTick = 500;                     // further connections wait in the kernel
constexpr size_t kHelloBytes = 1'024;                    // an agent's has fewer
constexpr int kManyClosed = 100;                         // connections after which memory is given back
constexpr absl::Duration kTrimEvery = absl::Seconds(5);  // at most: it takes time, and strangers can cause it
constexpr absl::Duration kGateTick = absl::Milliseconds(100);

// A program that has one address of loopback, or of a network of IPv6, has them all: they count as one.
std::string SourceOf(const SocketAddress& address, const std::string& ip) {
  if (ip == "::1" || ip.starts_with("127.")) return "127.0.0.1";
  const bool whole = address.storage.ss_family != AF_INET6 || ip.find(':') == std::string::npos;
  if (whole) return ip;
  SocketAddress network = address;
  auto* const bytes = reinterpret_cast<sockaddr_in6*>(&network.storage)->sin6_addr.s6_addr;
  std::memset(bytes + 8, 0, 8);
  return absl::StrCat(IpOf(network), "/64");
}

GateLimits LimitsOf(const GateOptions& options) {
  GateLimits limits = LimitsFor(DescriptorLimit());
  limits.nodes_are_named = options.credentials != nullptr;
  return limits;
}

}  // namespace

size_t DescriptorLimit() {
  rlimit limit{};
  return getrlimit(RLIMIT_NOFILE, &limit) == 0 ? limit.rlim_cur : 0;
}

absl::StatusOr<std::unique_ptr<Gate>> Gate::Open(std::vector<OwnedFd> listeners, GateOptions options,
                                                 Events events) {
  auto gate = std::unique_ptr<Gate>(new Gate(std::move(listeners), std::move(options), std::move(events)));
  RETURN_IF_ERROR(gate->Listen());
  ASSIGN_OR_RETURN(gate->thread_, LoopThread::Start());
  gate->thread_->loop()->Post([raw = gate.get()] { raw->Begin(); });
  return gate;
}

Gate::Gate(std::vector<OwnedFd> listeners, GateOptions options, Events events)
    : options_(std::move(options)),
      events_(std::move(events)),
      listeners_(std::move(listeners)),
      core_(LimitsOf(options_)),
      driver_(&core_, {.clock = &EventLoop::Now,
                       .carry_out = ByType<GateEffect>([this](const auto& effect) { Do(effect); }),
                       .log = events_.log}) {}

Gate::~Gate() {
  if (thread_ != nullptr) thread_->Call([this] { EndAll(); });
}

absl::Status Gate::Listen() {
  MUSTER_CHECK(!listeners_.empty(), "a gate has a socket");
  SocketAddress own;
  own.size = sizeof(own.storage);
  getsockname(listeners_.front().get(), own.get(), &own.size);
  port_ = PortOf(own);
  for (const OwnedFd& listener : listeners_) {
    if (listen(listener.get(), kBacklog) == 0) continue;
    const std::string text = absl::StrCat("cannot listen on port ", port_, ": ", std::strerror(errno));
    // Another socket may have been bound in the same moment.
    return errno == EADDRINUSE ? absl::UnavailableError(text) : absl::FailedPreconditionError(text);
  }
  return absl::OkStatus();
}

void Gate::Begin() {
  WatchListeners(true);
  Tick();
}

void Gate::WatchListeners(bool on) {
  for (const OwnedFd& listener : listeners_) {
    const int fd = listener.get();
    thread_->loop()->Unwatch(fd);
    if (on) thread_->loop()->Watch(fd, EPOLLIN, [this, fd](uint32_t) { Accept(fd); });
  }
}

void Gate::Accept(int listener) {
  for (int i = 0; i < kAcceptsAtOnce && !draining_ && !paused_; ++i) {
    SocketAddress from;
    from.size = sizeof(from.storage);
    OwnedFd fd(accept4(listener, from.get(), &from.size, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!fd.valid()) {
      const bool gone = errno == EAGAIN || errno == EINTR || errno == ECONNABORTED;
      return gone ? void() : PauseAccepting(errno);
    }
    short_ = false;
    if (++accepted_ == kAcceptsPerTick) StopUntilTick();
    const ConnectionId id = next_id_++;
    Connection& connection = connections_[id];
    connection.ip = IpOf(from);
    connection.socket = std::move(fd);
    connection.receive_buffer = ShrinkReceiveBuffer(connection.socket.get());
    thread_->loop()->Watch(connection.socket.get(), EPOLLIN, [this, id](uint32_t) { OnReadable(id); });
    driver_.Feed(&GateCore::OnAccepted, id, SourceOf(from, connection.ip));
  }
}

// An event, here and below, may be that of a closed connection whose descriptor this one has got.
void Gate::OnReadable(ConnectionId id) {
  const auto it = connections_.find(id);
  if (it == connections_.end()) return;
  std::array<char, kHelloBytes> first;
  const int fd = it->second.socket.get();
  const ssize_t got = recv(fd, first.data(), first.size(), MSG_PEEK | MSG_DONTWAIT);
  if (got < 0 && errno == EAGAIN) return;
  if (got <= 0) return Remove(id, "");
  thread_->loop()->Watch(fd, EPOLLRDHUP, [this, id](uint32_t) { OnHungUp(id); });
  const auto& live = options_.credentials;
  const std::string_view hello(first.data(), static_cast<size_t>(got));
  driver_.Feed(&GateCore::OnSpoke, id, live != nullptr && live->newest().credentials->IsNamedIn(hello));
}

// A connection that its peer has closed while it waits keeps neither its place nor its descriptor.
void Gate::OnHungUp(ConnectionId id) {
  const auto it = connections_.find(id);
  if (it == connections_.end() || !it->second.socket.valid()) return;
  pollfd polled{it->second.socket.get(), POLLRDHUP, 0};
  if (poll(&polled, 1, 0) == 1) Remove(id, "");
}

// No descriptor or no memory is free: connections wait in the kernel.
void Gate::PauseAccepting(int error) {
  if (!std::exchange(short_, true)) {
    events_.log({Severity::kWarning, absl::StrCat("cannot accept a connection: ", std::strerror(error),
                                                  ": nodes that want to join wait (ulimit -n)")});
  }
  StopUntilTick();
  driver_.Feed(&GateCore::OnShortage);
}

void Gate::StopUntilTick() {
  paused_ = true;
  WatchListeners(false);
}

void Gate::Tick() {
  driver_.Feed(&GateCore::OnTick);
  GiveBackMemory();
  accepted_ = 0;
  if (std::exchange(paused_, false)) WatchListeners(!draining_);
  thread_->loop()->After(kGateTick, [this] { Tick(); });
}

// The C library keeps what many connections at once have used, in this process's case gRPC's buffers.
void Gate::GiveBackMemory() {
  const BootTime now = EventLoop::Now();
  if (closed_ < kManyClosed || core_.visitors() > 0 || now < next_trim_) return;
  closed_ = 0;
  next_trim_ = now + kTrimEvery;
  malloc_trim(0);
}

void Gate::Do(const TellRefused& effect) { events_.on_refused(effect.source, effect.why); }

void Gate::Do(const LetIn& effect) {
  const ConnectionId id = effect.id;
  const auto it = connections_.find(id);
  if (it == connections_.end()) return;
  Connection& connection = it->second;
  thread_->loop()->Unwatch(connection.socket.get());
  PrepareConnection(connection.socket.get(), options_.dead_after);
  ReleaseReceiveBuffer(connection.socket.get(), connection.receive_buffer);
  const auto& live = options_.credentials;
  auto codec = std::make_unique<Guarded>(live == nullptr ? PlainServer() : live->newest().credentials->Accept(),
                                         &visitor_bytes_, id);
  connection.relay = std::make_unique<Relay>(
      thread_->loop(), std::move(connection.socket), std::move(codec),
      Relay::Events{.on_ready = [this, id] { OnReady(id); },
                    .on_ended = [this, id](const absl::Status& why) { OnEnded(id, why); }});
  connection.relay->Begin();
}

void Gate::OnReady(ConnectionId id) {
  Connection& connection = connections_.at(id);
  absl::StatusOr<NamedPair> pair = MakeNamedPair();
  if (!pair.ok() && !draining_) PauseAccepting(EMFILE);
  if (!pair.ok() || draining_) return connection.relay->End();
  connection.name = pair->name;
  const bool proved = options_.credentials != nullptr;
  {
    const MutexLock lock(mutex_);
    peers_[pair->name] = {.id = id, .ip = connection.ip, .binding = connection.relay->binding()};
  }
  driver_.Feed(&GateCore::OnReady, id, proved);
  connection.relay->Attach(std::move(pair->ours));
  events_.on_connection(std::move(pair->theirs));
}

// A stranger that only leaves is not worth a line: a load balancer's probe of the port does that every few
// seconds.
void Gate::OnEnded(ConnectionId id, const absl::Status& why) {
  const bool refused = !why.ok() && !absl::IsUnavailable(why);
  thread_->loop()->Post([this, id, text = refused ? std::string(AsStd(why.message())) : ""] { Remove(id, text); });
}

void Gate::Evict(ConnectionId id) {
  thread_->loop()->Post([this, id] { Remove(id, "it sent most of what visitors may send together"); });
}

void Gate::Do(const CloseConnection& effect) { Remove(effect.id, ""); }

void Gate::Remove(ConnectionId id, const std::string& refused) {
  const auto it = connections_.find(id);
  if (it == connections_.end()) return;
  if (it->second.socket.valid()) thread_->loop()->Unwatch(it->second.socket.get());
  if (!it->second.name.empty()) {
    const MutexLock lock(mutex_);
    const auto peer = peers_.find(it->second.name);  // a newer connection may have got the name
    if (peer != peers_.end() && peer->second.id == id) peers_.erase(peer);
  }
  connections_.erase(it);
  ++closed_;
  driver_.Feed(&GateCore::OnClosed, id, refused);
  if (connections_.empty() && drained_) std::exchange(drained_, nullptr)();
}

Gate::Peer Gate::FindPeer(const std::string& name) const {
  const MutexLock lock(mutex_);
  const auto it = peers_.find(name);
  return it == peers_.end() ? Peer() : it->second;
}

void Gate::SetAdmitted(ConnectionId id, bool admitted) {
  thread_->loop()->Post([this, id, admitted] {
    if (!admitted) return driver_.Feed(&GateCore::OnLeft, id);
    const auto it = connections_.find(id);
    if (it != connections_.end() && it->second.relay != nullptr) it->second.relay->Trust();
    driver_.Feed(&GateCore::OnAdmitted, id);
  });
}

void Gate::StopAccepting() {
  thread_->Call([this] {
    draining_ = true;
    WatchListeners(false);
    listeners_.clear();
    std::vector<ConnectionId> strangers;
    for (const auto& [id, connection] : connections_) {
      if (connection.name.empty()) strangers.push_back(id);
    }
    for (const ConnectionId id : strangers) Remove(id, "");
  });
}

void Gate::Drain(absl::Duration limit) {
  std::promise<void> done;
  thread_->Call([&] {
    drained_ = [&done] { done.set_value(); };
    if (connections_.empty()) std::exchange(drained_, nullptr)();
  });
  (void)done.get_future().wait_for(absl::ToChronoNanoseconds(limit));
  thread_->Call([&] { drained_ = nullptr; });
}

void Gate::EndAll() {
  draining_ = true;
  WatchListeners(false);
  listeners_.clear();
  for (const auto& [id, connection] : connections_) {
    if (connection.socket.valid()) thread_->loop()->Unwatch(connection.socket.get());
  }
  connections_.clear();
}

}  // namespace muster::rendezvous
