// Makes one connection to the coordinator: resolves its name, connects, does the handshake, and relays from then
// on. The application gets one end of a socket pair.
//
// It has a thread of its own. Create and destroy it on one other thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/io/loop_thread.h"
#include "base/io/owned_fd.h"
#include "rendezvous/gate/codec.h"
#include "rendezvous/gate/relay.h"

namespace muster::rendezvous {

// All functions are called on the dialer's thread.
struct DialTarget {
  // The IP addresses to try, in order. May block, but not for long once `cancelled` is true.
  std::function<absl::StatusOr<std::vector<std::string>>(const std::atomic<bool>& cancelled)> resolve;
  std::function<bool(const std::string& ip)> is_own;  // whether it is an address of this machine
  uint16_t port = 0;
  std::function<std::unique_ptr<Codec>()> make_codec;  // for each address
  absl::Duration address_limit;  // for each address: until it is connected and the peer has said something
  absl::Duration dead_after;     // see PrepareConnection
};

struct DialledAs {
  std::string local_ip;
  std::string binding;  // Codec::binding()
};

// What dialing has shown of the port at an address of this machine.
enum class OwnPort {
  kNone,  // no address of this machine was tried
  kFree,  // nobody listens there
  kUsed,
};

// The error of a peer that accepts the connection and says nothing. A kernel does that for a stopped process.
inline constexpr char kSilentPeer[] = "it accepts the connection and says nothing";

class Dialer {
 public:
  // Called on the dialer's thread.
  struct Events {
    std::function<void(OwnedFd application, const DialledAs& as)> on_connected;
    // Once, whether or not it was connected before. The codes of Codec; those of `resolve`; Unavailable: the
    // network.
    std::function<void(const absl::Status& why)> on_ended;
  };

  static absl::StatusOr<std::unique_ptr<Dialer>> Start(DialTarget target, Events events);
  ~Dialer();  // closes the connection at once
  Dialer(const Dialer&) = delete;
  Dialer& operator=(const Dialer&) = delete;

  OwnPort own_port() const { return own_port_; }

 private:
  Dialer(DialTarget target, Events events);

  EventLoop* loop() { return thread_->loop(); }
  void Resolve();
  void TryNext();
  void OnConnecting();
  void OnConnectError(int error);
  void BeginRelay();
  void OnReady();
  void OnSilence();
  void OnRelayEnded(const absl::Status& why);
  void Fail(const absl::Status& why);
  void CloseConnection();
  void End(const absl::Status& why);

  const DialTarget target_;
  const Events events_;
  std::atomic<bool> cancelled_ = false;
  std::atomic<OwnPort> own_port_ = OwnPort::kNone;
  std::deque<std::string> addresses_;  // not tried yet
  int attempt_ = 0;                    // counts the addresses that were tried
  bool is_own_ = false;                // the present address is this machine's
  OwnedFd connecting_;                 // until it is the relay's
  std::string local_ip_;
  EventLoop::TimerId limit_ = 0;  // of the present address
  bool connected_ = false;        // the application has its end
  bool ended_ = false;
  std::unique_ptr<Relay> relay_;
  std::unique_ptr<LoopThread> thread_;
};

}  // namespace muster::rendezvous
