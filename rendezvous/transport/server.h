// The gRPC server of `Attend`: one completion queue, one thread of our own, one stream for each agent.
//
// It decides nothing. Lives on the loop thread; the queue's thread only posts completed operations to it. Each
// stream has one read and one write outstanding; a directive that waits to be written is replaced by a newer one,
// since only the newest document counts. So no queue grows, and a slow agent slows nobody.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/takeover.h"
#include "muster/v1/rendezvous.pb.h"
#include "rendezvous/transport/listen_address.h"
#include "rendezvous/transport/post.h"

namespace muster::rendezvous {

inline constexpr size_t kMaxStreams = kMostAgents;                        // one for each agent
inline constexpr absl::Duration kServerShutdownLimit = absl::Seconds(1);  // then calls still open are cancelled

// Never 0, never used twice.
using StreamId = uint64_t;

// Streams in this process have this bit set; those of the server never reach it.
inline constexpr StreamId kLocalStreamBit = StreamId{1} << 63;

// Called on the loop thread.
class StreamEvents {
 public:
  virtual ~StreamEvents() = default;
  // Before the stream's first status. peer: the other end's IP address, without port or brackets.
  virtual void OnOpened(StreamId stream, const std::string& peer) = 0;
  virtual void OnStatus(StreamId stream, const v1::AgentStatus& status) = 0;
  // Ended from the other side or lost. Not called after Close().
  virtual void OnClosed(StreamId stream) = 0;
  // A stream was refused before anything was read from it, and nothing else is told of it.
  virtual void OnTurnedAway(const std::string& /*peer*/, const std::string& /*why*/) {}
};

struct ServerOptions {
  ListenPlan listen;
  std::string token;  // empty: none is asked for
  std::string version;
  std::string instance;  // names this server among all of them; told to who attaches
  absl::Duration lease;  // gRPC's timers are longer
};

class Server {
 public:
  // Unavailable: a port is in use, and may be free later. All errors name the address.
  static absl::StatusOr<std::unique_ptr<Server>> Start(const ServerOptions& options, Post post,
                                                       StreamEvents* events);
  ~Server();  // Shutdown()
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  int port() const;
  size_t streams() const;  // open, or not yet closed to the end

  // To a stream that is gone: nothing.
  void Send(StreamId stream, const v1::Directive& directive);
  // After what was sent is written. A peer that reads nothing is cleared up by keepalive.
  void Close(StreamId stream, const std::string& reason);

  // Ends every stream and stops listening. Blocks, at most a little over kServerShutdownLimit. No more calls
  // follow.
  void Shutdown();

 private:
  class Impl;
  explicit Server(std::unique_ptr<Impl> impl);

  const std::unique_ptr<Impl> impl_;
};

}  // namespace muster::rendezvous
