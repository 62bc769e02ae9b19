#include "rendezvous/gate/dialer.h"

#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "base/core/check.h"
#include "base/core/status_macros.h"
#include "rendezvous/gate/tcp.h"

namespace muster::rendezvous {

absl::StatusOr<std::unique_ptr<Dialer>> Dialer::Start(DialTarget target, Events events) {
  auto dialer = std::unique_ptr<Dialer>(new Dialer(std::move(target), std::move(events)));
  ASSIGN_OR_RETURN(dialer->thread_, LoopThread::Start());
  dialer->loop()->Post([raw = dialer.get()] { raw->Resolve(); });
  return dialer;
}

Dialer::Dialer(DialTarget target, Events events) : target_(std::move(target)), events_(std::move(events)) {}

Dialer::~Dialer() {
  if (thread_ == nullptr) return;
  cancelled_ = true;
  thread_->Call([this] { CloseConnection(); });
}

// Blocks this thread, which has nothing else to do yet.
void Dialer::Resolve() {
  const absl::StatusOr<std::vector<std::string>> found = target_.resolve(cancelled_);
  if (cancelled_) return;
  if (!found.ok()) return End(found.status());
  MUSTER_CHECK(!found->empty(), "a name that resolves has an address");
  addresses_.assign(found->begin(), found->end());
  TryNext();
}

void Dialer::TryNext() {
  const std::optional<SocketAddress> address = ParseSocketAddress(addresses_.front(), target_.port);
  is_own_ = target_.is_own(addresses_.front());
  if (is_own_) own_port_ = OwnPort::kUsed;  // until it refuses
  addresses_.pop_front();
  ++attempt_;
  MUSTER_CHECK(address.has_value(), "a name resolves to IP addresses");
  connecting_ = OwnedFd(socket(address->storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const bool begun = connecting_.valid() &&
                     (connect(connecting_.get(), address->get(), address->size) == 0 || errno == EINPROGRESS);
  if (!begun) return OnConnectError(errno);
  limit_ = loop()->After(target_.address_limit, [this] { OnSilence(); });
  loop()->Watch(connecting_.get(), EPOLLOUT, [this](uint32_t) { OnConnecting(); });
}

void Dialer::OnConnecting() {
  loop()->Unwatch(connecting_.get());  // its error is reported once
  int error = 0;
  socklen_t size = sizeof(error);
  getsockopt(connecting_.get(), SOL_SOCKET, SO_ERROR, &error, &size);
  error == 0 ? BeginRelay() : OnConnectError(error);
}

void Dialer::OnConnectError(int error) {
  if (is_own_ && error == ECONNREFUSED) own_port_ = OwnPort::kFree;
  Fail(absl::UnavailableError(std::strerror(error)));
}

void Dialer::BeginRelay() {
  PrepareConnection(connecting_.get(), target_.dead_after);
  SocketAddress local;
  local.size = sizeof(local.storage);
  getsockname(connecting_.get(), local.get(), &local.size);
  local_ip_ = IpOf(local);
  relay_ =
      std::make_unique<Relay>(loop(), std::move(connecting_), target_.make_codec(),
                              Relay::Events{.on_ready = [this] { OnReady(); },
                                            .on_ended = [this](const absl::Status& why) { OnRelayEnded(why); }});
  relay_->Begin();
}

void Dialer::OnReady() {
  absl::StatusOr<NamedPair> pair = MakeNamedPair();
  if (!pair.ok()) return Fail(pair.status());
  connected_ = true;
  relay_->Attach(std::move(pair->ours));
  events_.on_connected(std::move(pair->theirs), {.local_ip = local_ip_, .binding = relay_->binding()});
}

// The kernel accepts connections for a process that is stopped, too. Without a token the peer speaks only after
// the application has.
void Dialer::OnSilence() {
  if (relay_ != nullptr && relay_->heard()) return;
  Fail(absl::UnavailableError(relay_ == nullptr ? std::strerror(ETIMEDOUT) : kSilentPeer));
}

void Dialer::OnRelayEnded(const absl::Status& why) {
  Fail(why.ok() ? absl::UnavailableError("connection closed") : why);
}

// Posted, because the relay may have called. A peer that refuses this node at one address would do so at the
// others.
void Dialer::Fail(const absl::Status& why) {
  loop()->Post([this, why, attempt = attempt_] {
    if (cancelled_ || ended_ || attempt != attempt_) return;
    const bool tries_next = !connected_ && absl::IsUnavailable(why) && !addresses_.empty();
    if (!tries_next) End(why);  // before the application finds out
    CloseConnection();
    if (tries_next) TryNext();
  });
}

void Dialer::CloseConnection() {
  loop()->Cancel(limit_);
  relay_.reset();
  if (!connecting_.valid()) return;
  loop()->Unwatch(connecting_.get());
  connecting_.Reset();
}

void Dialer::End(const absl::Status& why) {
  ended_ = true;
  events_.on_ended(why);
}

}  // namespace muster::rendezvous
