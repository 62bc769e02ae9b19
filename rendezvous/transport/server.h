// The gRPC server of `Attend`: one completion queue with its own thread, one stream for each agent. Connections
// come through a Gate.
//
// It decides nothing. Lives on the loop thread, to which the queue's thread posts completed operations. Each
// stream has at most one read and one write outstanding; a newer directive replaces one that waits to be written,
// since only the newest document counts. So no queue grows, and a slow agent does not delay others.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/core/allowance.h"
#include "base/wire/takeover.h"
#include "muster/v1/control.pb.h"
#include "muster/v1/rendezvous.pb.h"
#include "rendezvous/gate/credentials.h"
#include "rendezvous/transport/listen_address.h"
#include "rendezvous/transport/post.h"

namespace muster::rendezvous {

inline constexpr size_t kMaxStreams = kMostAgents;  // with an admitted agent
inline constexpr int kMaxStatusesUnadmitted =
    8;                                          // on one stream; an agent is admitted by its first one, or refused
inline constexpr int kStatusesPerSecond = 500;  // of one host; a real one sends some 20, and at changes
inline constexpr int kStatusBurst = 2'000;
inline constexpr double kQuestionsPerSecond = 100;  // from all together; more are told to ask again
inline constexpr double kQuestionBurst = 200;
inline constexpr absl::Duration kLastBytesLimit = absl::Milliseconds(200);  // then, for what was written
inline constexpr absl::Duration kServerShutdownLimit = absl::Seconds(1);    // after it open calls are cancelled

// Never 0, never used twice. Counted from 1, so the highest bit, which marks streams within this process
// (rendezvous/core/effects.h), is never set.
using StreamId = uint64_t;

// Called on the loop thread.
class StreamEvents {
 public:
  virtual ~StreamEvents() = default;
  virtual void OnOpened(StreamId /*stream*/) {}  // called before the stream's first status
  virtual void OnStatus(StreamId stream, const v1::AgentStatus& status) = 0;
  // The peer has ended the stream, it was lost, or it sent what no agent sends. Not called after Close().
  virtual void OnClosed(StreamId stream) = 0;
  // Whether this host, which has proved itself, may ask for the state of the job, though the job has no
  // credentials.
  virtual absl::Status MayAsk(const std::string& /*host_id*/) {
    return absl::PermissionDeniedError("no job is coordinated here");
  }
  // The state of the job, for those who may ask; kept for kAnswerKept (question_calls.h). Errors: why there is
  // none.
  virtual absl::StatusOr<v1::JobView> OnQuestion(const v1::Question& /*question*/) {
    return absl::UnimplementedError("no job is coordinated here");
  }
  // A connection or a stream was refused. No other event of it follows but OnClosed, if it was opened.
  virtual void OnTurnedAway(const std::string& /*peer*/, const std::string& /*why*/) {}
};

struct ServerOptions {
  ListenPlan listen;
  InheritedSockets inherited = {};
  std::shared_ptr<const LiveCredentials> credentials;  // null: none are required
  std::string version;
  std::string run_id;
  std::string instance;  // a name that no other server has, sent to agents that attach
  absl::Duration lease;  // gRPC's timers are set longer than this
  Allowance statuses{kStatusBurst, kStatusesPerSecond};      // of each host
  Allowance questions{kQuestionBurst, kQuestionsPerSecond};  // of all together
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
  size_t members() const;  // streams with an admitted agent
  size_t streams() const;  // open, or not yet closed completely
  // The IP address of the stream's other end, without port or brackets; empty: the stream is gone.
  std::string PeerOf(StreamId stream) const;

  // An agent was admitted on it: its connection may stay open for as long as the stream does. Others are closed
  // after kAdmissionLimit. No effect on a stream that is gone.
  void Admit(StreamId stream);

  // No effect on a stream that is gone.
  void Send(StreamId stream, const v1::Directive& directive);
  // Closes the stream after pending writes. If the peer reads nothing, keepalive ends the stream.
  void Close(StreamId stream, const std::string& reason);

  // Agents that are connected stay so.
  void StopListening();
  // Ends every stream and stops listening. Blocks, at most for kServerShutdownLimit and kLastBytesLimit. No more
  // events follow.
  void Shutdown();

 private:
  class Impl;
  explicit Server(std::unique_ptr<Impl> impl);

  const std::unique_ptr<Impl> impl_;
};

}  // namespace muster::rendezvous
