#include "rendezvous/gate/relay.h"

#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/core/check.h"

namespace muster::rendezvous {
namespace {

constexpr size_t kReadBytes = 64 * 1024;

bool WouldBlock(int error) { return error == EAGAIN || error == EINTR; }

}  // namespace

Relay::Relay(EventLoop* loop, OwnedFd network, std::unique_ptr<Codec> codec, Events events)
    : loop_(loop), network_(std::move(network)), codec_(std::move(codec)), events_(std::move(events)) {}

Relay::~Relay() {
  loop_->Cancel(timer_);
  Watch(network_.get(), 0, &network_watched_, nullptr);
  Watch(application_.get(), 0, &application_watched_, nullptr);
}

void Relay::Begin() {
  std::string hello;
  const absl::Status started = codec_->Start(&hello);
  MUSTER_CHECK(started.ok(), "a codec can start");
  to_network_.Push(hello);
  BecomeReady();
  Advance();
}

void Relay::Attach(OwnedFd application) {
  MUSTER_CHECK(ready_ && !application_.valid(), "one application, once the peer is ready");
  if (state_ != State::kOpen) return;  // closes it
  application_ = std::move(application);
  Advance();
}

void Relay::End() {
  DropApplication(absl::OkStatus());
  Advance();
}

void Relay::OnNetwork(uint32_t events) {
  if ((events & ~EPOLLOUT) != 0) ReadNetwork();
  Advance();
}

void Relay::OnApplication(uint32_t events) {
  if ((events & ~EPOLLOUT) != 0) ReadApplication();
  Advance();
}

void Relay::ReadNetwork() {
  std::array<char, kReadBytes> buffer;
  const ssize_t got = recv(network_.get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
  if (got < 0 && WouldBlock(errno)) return;
  if (got < 0) return LoseNetwork(absl::UnavailableError(std::strerror(errno)));
  if (got == 0) return LoseNetwork(absl::OkStatus());
  if (state_ == State::kOpen) Decode({buffer.data(), static_cast<size_t>(got)});
}

void Relay::Decode(std::string_view bytes) {
  heard_ = true;
  std::string plain, out;
  const absl::Status status = codec_->FromPeer(EventLoop::Now(), bytes, &plain, &out);
  to_application_.Push(plain);
  to_network_.Push(out);
  if (!status.ok()) return DropApplication(status);
  BecomeReady();
}

void Relay::BecomeReady() {
  if (ready_ || !codec_->ready()) return;
  ready_ = true;
  events_.on_ready();
}

void Relay::ReadApplication() {
  if (state_ != State::kOpen) return;
  std::array<char, kReadBytes> buffer;
  const ssize_t got = recv(application_.get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
  if (got < 0 && WouldBlock(errno)) return;
  if (got <= 0) return DropApplication(absl::OkStatus());
  std::string out;
  const absl::Status status = codec_->ToPeer({buffer.data(), static_cast<size_t>(got)}, &out);
  to_network_.Push(out);
  if (!status.ok()) DropApplication(status);
}

void Relay::DropApplication(const absl::Status& why) {
  if (state_ != State::kOpen) return;
  state_ = State::kFlushing;
  why_ = why;
  if (why.ok()) {
    std::string goodbye;
    codec_->Close(&goodbye);
    to_network_.Push(goodbye);
  }
  Watch(application_.get(), 0, &application_watched_, nullptr);
  if (why.ok()) application_.Reset();
  to_application_.Clear();
  timer_ = loop_->After(kRelayLinger, [this] {
    timer_ = 0;
    Finish();
  });
}

void Relay::LoseNetwork(const absl::Status& why) {
  network_over_ = true;
  if (state_ == State::kOpen) why_ = why;
}

void Relay::Advance() {
  if (state_ == State::kEnded) return;
  if (!network_over_ && !Write(network_, &to_network_)) LoseNetwork(absl::UnavailableError(std::strerror(errno)));
  if (application_.valid() && !Write(application_, &to_application_)) DropApplication(absl::OkStatus());
  const bool delivered = to_application_.empty() || !application_.valid();
  if (network_over_ && delivered) return Finish();
  if (state_ == State::kFlushing && to_network_.empty()) {
    shutdown(network_.get(), SHUT_WR);
    state_ = State::kDraining;
  }
  UpdateWatches();
}

// False: the other end takes nothing any more; errno says why.
bool Relay::Write(const OwnedFd& fd, ByteQueue* bytes) const {
  while (!bytes->empty()) {
    const std::string_view next = bytes->front(kReadBytes);
    const ssize_t sent = send(fd.get(), next.data(), next.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0) return errno == EAGAIN;
    bytes->Pop(static_cast<size_t>(sent));
  }
  return true;
}

void Relay::UpdateWatches() {
  const bool open = state_ == State::kOpen;
  const bool reads = !network_over_ && (!open || to_application_.size() < kMaxRelayed);
  const bool sends = !network_over_ && !to_network_.empty();
  Watch(network_.get(), (reads ? EPOLLIN : 0u) | (sends ? EPOLLOUT : 0u), &network_watched_, &Relay::OnNetwork);
  if (!application_.valid() || !open) return;
  const bool takes = open && !network_over_ && to_network_.size() < kMaxRelayed;
  const bool gives = !to_application_.empty();
  Watch(application_.get(), (takes ? EPOLLIN : 0u) | (gives ? EPOLLOUT : 0u), &application_watched_,
        &Relay::OnApplication);
}

// The kernel reports errors of a watched descriptor in any case, so one without events is not watched.
void Relay::Watch(int fd, uint32_t events, uint32_t* watched, void (Relay::*on_events)(uint32_t)) {
  if (events == *watched) return;
  *watched = events;
  if (events == 0) return loop_->Unwatch(fd);
  loop_->Watch(fd, events, [this, on_events](uint32_t what) { (this->*on_events)(what); });
}

void Relay::Finish() {
  if (state_ == State::kEnded) return;
  state_ = State::kEnded;
  loop_->Cancel(timer_);
  Watch(network_.get(), 0, &network_watched_, nullptr);
  Watch(application_.get(), 0, &application_watched_, nullptr);
  network_.Reset();
  timer_ = loop_->After(absl::ZeroDuration(), [this] {
    timer_ = 0;
    events_.on_ended(why_);
  });
}

}  // namespace muster::rendezvous
