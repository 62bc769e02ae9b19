// Where a coordinator accepts connections. Each is let in by GateCore, does its handshake, and is relayed from
// then on; the application, gRPC, gets one end of a socket pair for it. So gRPC never meets a stranger's bytes
// before they are known to be HTTP/2 within bounds and, if the job has credentials, to come from someone who has
// them.
//
// It has a thread of its own, so that the coordinator's loop never waits for a stranger. Thread-safe.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/core/driver.h"
#include "base/io/loop_thread.h"
#include "base/io/mutex.h"
#include "base/io/owned_fd.h"
#include "rendezvous/gate/credentials.h"
#include "rendezvous/gate/frame_guard.h"
#include "rendezvous/gate/gate_core.h"
#include "rendezvous/gate/relay.h"

namespace muster::rendezvous {

struct GateOptions {
  std::shared_ptr<const LiveCredentials> credentials;  // null: the job has none, and everyone is let in
  absl::Duration dead_after;                           // see PrepareConnection
};

size_t DescriptorLimit();  // how many descriptors this process may open

class Gate {
 public:
  // Called on the gate's thread.
  struct Events {
    std::function<void(OwnedFd application)> on_connection;
    std::function<void(const std::string& source, const std::string& why)> on_refused;
    std::function<void(const Note& note)> log;
  };

  // Listens on these sockets, which are bound and do not block. Unavailable: the port is in use.
  static absl::StatusOr<std::unique_ptr<Gate>> Open(std::vector<OwnedFd> listeners, GateOptions options,
                                                    Events events);
  ~Gate();  // closes all connections at once
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;

  int port() const { return port_; }

  // A connection that the application has.
  struct Peer {
    ConnectionId id = 0;  // 0: unknown
    std::string ip;
    std::string binding;  // Codec::binding()
  };
  // name: as gRPC tells the peer of a call; see NamedPair. Another connection may have it later.
  Peer FindPeer(const std::string& name) const;
  void SetAdmitted(ConnectionId id, bool admitted);

  // The rest is not for the gate's thread. Listens no more, and on_connection is not called any more.
  void StopAccepting();
  // After StopAccepting(): waits until the application has closed all its ends and what it wrote is sent, for at
  // most this time.
  void Drain(absl::Duration limit);

 private:
  struct Connection {
    std::string ip;
    OwnedFd socket;          // until it is let in
    int receive_buffer = 0;  // see ShrinkReceiveBuffer
    std::unique_ptr<Relay> relay;
    std::string name;  // empty: its handshake is not over
  };

  Gate(std::vector<OwnedFd> listeners, GateOptions options, Events events);
  absl::Status Listen();
  void Begin();
  void Accept(int listener);
  void Do(const LetIn& effect);
  void Do(const CloseConnection& effect);
  void Do(const TellRefused& effect);
  void OnReadable(ConnectionId id);
  void OnHungUp(ConnectionId id);
  void OnReady(ConnectionId id);
  void OnEnded(ConnectionId id, const absl::Status& why);
  void Evict(ConnectionId id);
  void Remove(ConnectionId id, const std::string& refused);
  void WatchListeners(bool on);
  void PauseAccepting(int error);
  void StopUntilTick();
  void Tick();
  void GiveBackMemory();
  void EndAll();

  const GateOptions options_;
  const Events events_;
  int port_ = 0;
  std::vector<OwnedFd> listeners_;
  bool draining_ = false;
  bool paused_ = false;  // until the next tick: no descriptor is free, or enough were accepted
  int accepted_ = 0;     // since the last tick
  bool short_ = false;   // the same, until a connection was accepted
  int closed_ = 0;       // connections since memory was given back
  BootTime next_trim_ = absl::InfinitePast();
  ConnectionId next_id_ = 1;
  VisitorBytes visitor_bytes_{[this](ConnectionId id) { Evict(id); }};
  std::map<ConnectionId, Connection> connections_;
  GateCore core_;
  CoreDriver<GateCore, GateEffect> driver_;
  mutable Mutex mutex_;
  std::map<std::string, Peer> peers_ ABSL_GUARDED_BY(mutex_);  // by name
  std::function<void()> drained_;                              // set while Drain() waits
  std::unique_ptr<LoopThread> thread_;
};

}  // namespace muster::rendezvous
