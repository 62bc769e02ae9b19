// Passes bytes between a connection of the network and the application's end of a socket pair, through a codec.
// What it holds is bounded: it reads from one side only while the other one takes what it has.
//
// Lives on the loop thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/io/byte_queue.h"
#include "base/io/event_loop.h"
#include "base/io/owned_fd.h"
#include "rendezvous/gate/codec.h"

namespace muster::rendezvous {

inline constexpr size_t kMaxRelayed = 256 * 1024;  // bytes held for each direction, and one read
inline constexpr absl::Duration kRelayLinger = absl::Milliseconds(500);  // for the last bytes to leave

class Relay {
 public:
  // on_ready is called by Begin() or from the loop; on_ended from the loop alone, once. Neither may destroy the
  // relay.
  struct Events {
    std::function<void()> on_ready;  // the peer has shown what it must: Attach the application
    // OK: one of the sides has closed the connection. Else the codec's error, or that of the network
    // (Unavailable).
    // If the network has ended it, the application's end is closed with this object.
    std::function<void(const absl::Status& why)> on_ended;
  };

  // network: connected, and non-blocking.
  Relay(EventLoop* loop, OwnedFd network, std::unique_ptr<Codec> codec, Events events);
  ~Relay();  // closes both sides at once
  Relay(const Relay&) = delete;
  Relay& operator=(const Relay&) = delete;

  void Begin();
  void Attach(OwnedFd application);  // a non-blocking socket
  void End();                        // sends what is left, within kRelayLinger, and closes both sides

  void Trust() { codec_->Trust(); }

  std::string binding() const { return codec_->binding(); }  // once it is ready

  bool ready() const { return ready_; }
  bool heard() const { return heard_; }  // the peer has sent something

 private:
  enum class State {
    kOpen,
    kFlushing,  // the application is gone, and the last bytes are sent
    kDraining,  // they are, and the peer closes its side: a socket closed earlier could lose them
    kEnded,
  };

  void OnNetwork(uint32_t events);
  void OnApplication(uint32_t events);
  void ReadNetwork();
  void ReadApplication();
  void Decode(std::string_view bytes);
  void BecomeReady();
  void DropApplication(const absl::Status& why);
  void LoseNetwork(const absl::Status& why);
  void Advance();
  bool Write(const OwnedFd& fd, ByteQueue* bytes) const;
  void UpdateWatches();
  void Watch(int fd, uint32_t events, uint32_t* watched, void (Relay::*on_events)(uint32_t));
  void Finish();

  EventLoop* const loop_;
  OwnedFd network_;
  OwnedFd application_;
  const std::unique_ptr<Codec> codec_;
  const Events events_;
  State state_ = State::kOpen;
  bool ready_ = false;
  bool heard_ = false;
  bool network_over_ = false;  // nothing more comes from it, and nothing can be sent
  absl::Status why_;
  ByteQueue to_network_, to_application_;
  uint32_t network_watched_ = 0;
  uint32_t application_watched_ = 0;
  EventLoop::TimerId timer_ = 0;  // ends the flush, or reports the end
};

}  // namespace muster::rendezvous
