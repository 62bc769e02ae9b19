#include "rendezvous/transport/server.h"

#include <grpcpp/grpcpp.h>

#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/console/log.h"
#include "base/core/check.h"
#include "base/core/status_macros.h"
#include "base/io/event_loop.h"
#include "muster/v1/rendezvous.grpc.pb.h"
#include "rendezvous/gate/gate.h"
#include "rendezvous/transport/channel_options.h"
#include "rendezvous/transport/completion_thread.h"
#include "rendezvous/transport/question_calls.h"
#include "rendezvous/transport/received_status.h"
#include "rendezvous/transport/speaker.h"
#include "rendezvous/transport/status_rates.h"

namespace muster::rendezvous {
namespace {

constexpr char kShuttingDown[] = "the coordinator is shutting down";

// A relative time: the wall clock may be set meanwhile.
gpr_timespec Deadline(absl::Duration from_now) {
  return gpr_time_from_millis(absl::ToInt64Milliseconds(from_now), GPR_TIMESPAN);
}

absl::StatusOr<v1::AgentStatus> StatusIn(const grpc::ByteBuffer& bytes) {
  grpc::Slice whole;
  if (!bytes.DumpToSingleSlice(&whole).ok()) return absl::ResourceExhaustedError("its status could not be read");
  return ReadStatus({reinterpret_cast<const char*>(whole.begin()), whole.size()});
}

grpc::ByteBuffer BytesOf(const v1::Directive& directive) {
  const grpc::Slice slice(directive.SerializeAsString());
  return {&slice, 1};
}

}  // namespace

class Server::Impl {
 public:
  Impl(ServerOptions options, Post post, StreamEvents* events)
      : options_(std::move(options)), post_(std::move(post)), events_(events) {}
  ~Impl() { Shutdown(); }

  absl::Status Start();
  void Send(StreamId id, const v1::Directive& directive);
  void Close(StreamId id, grpc::Status why);
  void Shutdown();

  int port() const { return gate_ == nullptr ? 0 : gate_->port(); }
  size_t streams() const { return streams_.size(); }
  size_t members() const { return admitted_; }
  std::string PeerOf(StreamId id) const {
    const auto it = streams_.find(id);
    return it == streams_.end() ? "" : it->second->peer.ip;
  }
  void Admit(StreamId id);
  void StopListening() {
    if (gate_ != nullptr) gate_->StopAccepting();
  }

 private:
  // One agent's stream. Destroyed when no operation of it is outstanding.
  struct Stream {
    StreamId id = 0;
    Gate::Peer peer;
    Speaker speaker;
    grpc::ServerContext context;
    // Bytes, not messages: gRPC would parse a status before anything of it can be checked.
    grpc::ServerAsyncReaderWriter<grpc::ByteBuffer, grpc::ByteBuffer> io{&context};
    grpc::ByteBuffer incoming;             // belongs to gRPC while reading
    grpc::ByteBuffer outgoing;             // belongs to gRPC while writing
    std::optional<v1::Directive> waiting;  // the newest one; its write has not begun
    std::optional<grpc::Status> closing;   // the final status, sent once everything is written
    int heard = 0;                         // statuses before its agent was admitted
    bool admitted = false;
    bool reading = false;
    bool writing = false;
    bool write_failed = false;
    bool finishing = false;
    bool finished = false;
    Tag accepted, read, written, ended;
  };

  void Accept();
  void OnAccepted(bool ok);
  absl::Status OpenGate(std::vector<OwnedFd> listeners);
  absl::Status MayAsk(const std::string& peer, const v1::Question& question);
  void Read(Stream* stream);
  void OnRead(Stream* stream, bool ok);
  void Hear(Stream* stream, const grpc::ByteBuffer& bytes);
  absl::StatusOr<v1::AgentStatus> WhatItSays(Stream* stream, const grpc::ByteBuffer& bytes);
  absl::Status CountStatusOf(const std::string& host_id);
  void TurnAway(Stream* stream, const absl::Status& why);
  void Advance(Stream* stream);
  void OnWritten(Stream* stream, bool ok);
  void Release(Stream* stream);

  const ServerOptions options_;
  const Post post_;
  StreamEvents* const events_;
  v1::Rendezvous::WithRawMethod_Attend<v1::Rendezvous::Service> service_;
  QuestionCalls questions_{
      [this](const std::string& peer, const v1::Question& question) { return MayAsk(peer, question); },
      [this](const v1::Question& question) { return events_->OnQuestion(question); }};
  Allowance questions_left_ = options_.questions;
  bool stopping_ = false;
  StatusRates rates_{options_.statuses};
  size_t admitted_ = 0;  // streams with an admitted agent
  StreamId next_id_ = 1;
  std::unique_ptr<Stream> accepting_;
  std::map<StreamId, std::unique_ptr<Stream>> streams_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);  // for closures that the gate's thread posts
  std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> acceptor_;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<CompletionThread> thread_;  // joined before the streams are destroyed
  std::unique_ptr<Gate> gate_;                // passes connections to the acceptor
};

absl::Status Server::Impl::Start() {
  ASSIGN_OR_RETURN(std::vector<OwnedFd> listeners, BindTo(options_.listen, options_.inherited));
  if (options_.listen.port == 0) listeners.resize(1);  // each has another port
  grpc::ServerBuilder builder;
  ConfigureServer(options_.lease, &builder);
  acceptor_ = builder.experimental().AddExternalConnectionAcceptor(
      grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD, grpc::InsecureServerCredentials());
  builder.RegisterService(&service_);
  builder.RegisterService(questions_.service());
  std::unique_ptr<grpc::ServerCompletionQueue> queue = builder.AddCompletionQueue();
  server_ = builder.BuildAndStart();
  MUSTER_CHECK(server_ != nullptr, "a server without ports starts");
  thread_ = std::make_unique<CompletionThread>(std::move(queue), post_);
  absl::Status status = thread_->status();
  if (status.ok()) status = OpenGate(std::move(listeners));
  if (!status.ok()) {
    server_->Shutdown();
    thread_->Join();
    server_.reset();
    return status;
  }
  Accept();
  questions_.Begin(static_cast<grpc::ServerCompletionQueue*>(thread_->queue()));
  return absl::OkStatus();
}

absl::Status Server::Impl::OpenGate(std::vector<OwnedFd> listeners) {
  const GateOptions options{.credentials = options_.credentials, .dead_after = KeepaliveTime(options_.lease)};
  Gate::Events events;
  events.on_connection = [acceptor = acceptor_.get()](OwnedFd connection) {
    grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters parameters;
    parameters.fd = connection.Release();
    acceptor->HandleNewConnection(&parameters);
  };
  events.on_refused = [this, alive = std::weak_ptr<bool>(alive_)](const std::string& peer,
                                                                  const std::string& why) {
    post_([this, alive, peer, why] {
      if (!alive.expired() && !stopping_) events_->OnTurnedAway(peer, why);
    });
  };
  events.log = [](const Note& note) { Log("coordinator", note); };
  ASSIGN_OR_RETURN(gate_, Gate::Open(std::move(listeners), options, std::move(events)));
  return absl::OkStatus();
}

// With credentials the connection alone shows that the asker may know. Without them it must be a host's agent.
// Counted before the proof is checked, which takes time.
absl::Status Server::Impl::MayAsk(const std::string& peer, const v1::Question& question) {
  if (!questions_left_.Take(EventLoop::Now())) return absl::ResourceExhaustedError("too many ask; ask again");
  const Gate::Peer from = gate_->FindPeer(peer);
  if (from.id == 0) return absl::UnavailableError("its connection has ended");
  if (options_.credentials != nullptr) return absl::OkStatus();
  if (question.host_id().empty() || !IsProved(question.proof(), question.host_id(), options_.run_id, from.binding))
    return absl::PermissionDeniedError("a job without a token answers only the doors of its own nodes");
  return events_->MayAsk(question.host_id());
}

void Server::Impl::Accept() {
  accepting_ = std::make_unique<Stream>();
  accepting_->accepted.done = [this](bool ok) { OnAccepted(ok); };
  auto* queue = static_cast<grpc::ServerCompletionQueue*>(thread_->queue());
  service_.RequestAttend(&accepting_->context, &accepting_->io, queue, queue, &accepting_->accepted);
}

void Server::Impl::OnAccepted(bool ok) {
  std::unique_ptr<Stream> owned = std::move(accepting_);
  if (!ok || stopping_) return;  // only when the server shuts down
  Accept();

  Stream* stream = owned.get();
  stream->id = next_id_++;
  stream->peer = gate_->FindPeer(stream->context.peer());
  streams_.emplace(stream->id, std::move(owned));
  stream->read.done = [this, stream](bool read_ok) { OnRead(stream, read_ok); };
  stream->written.done = [this, stream](bool write_ok) { OnWritten(stream, write_ok); };
  stream->ended.done = [this, stream](bool) {
    stream->finished = true;
    Release(stream);
  };
  // The gate knows neither whom to count nor what binds a proof to this connection.
  if (stream->peer.id == 0) {
    stream->closing = grpc::Status(grpc::StatusCode::UNAVAILABLE, "its connection has ended");
    Advance(stream);
    return;
  }
  if (admitted_ >= kMaxStreams) {
    const std::string why = "the coordinator has reached its limit of " + std::to_string(kMaxStreams) + " agents";
    events_->OnTurnedAway(PeerOf(stream->id), why);
    stream->closing = grpc::Status(grpc::StatusCode::RESOURCE_EXHAUSTED, why);
    Advance(stream);
    return;
  }
  // Tells the agent at once that a coordinator has accepted it; counts as a write.
  stream->context.AddInitialMetadata(kServerKey, options_.version);
  stream->context.AddInitialMetadata(kServerInstanceKey, options_.instance);
  stream->context.AddInitialMetadata(kServerTimeKey, std::to_string(absl::ToUnixMillis(absl::Now())));
  stream->writing = true;
  stream->io.SendInitialMetadata(&stream->written);
  events_->OnOpened(stream->id);
  Read(stream);
}

void Server::Impl::Admit(StreamId id) {
  const auto it = streams_.find(id);
  if (it == streams_.end() || std::exchange(it->second->admitted, true)) return;
  ++admitted_;
  gate_->SetAdmitted(it->second->peer.id, true);
}

void Server::Impl::Read(Stream* stream) {
  stream->reading = true;
  stream->io.Read(&stream->incoming, &stream->read);
}

void Server::Impl::OnRead(Stream* stream, bool ok) {
  stream->reading = false;
  if (!ok) {
    if (!stream->closing.has_value()) {
      stream->closing = grpc::Status::OK;
      stream->waiting.reset();
      events_->OnClosed(stream->id);
    }
    Advance(stream);
    return;
  }
  const grpc::ByteBuffer bytes = std::exchange(stream->incoming, {});
  if (!stream->closing.has_value()) Hear(stream, bytes);
  // Also while closing: unread data would delay the end of the stream at the peer.
  if (!stream->finished && !stopping_) Read(stream);
}

void Server::Impl::Hear(Stream* stream, const grpc::ByteBuffer& bytes) {
  const absl::StatusOr<v1::AgentStatus> status = WhatItSays(stream, bytes);
  if (!status.ok()) return TurnAway(stream, status.status());
  events_->OnStatus(stream->id, *status);
}

// Who has named no host is heard a few times only; of each host the statuses are counted before they are parsed.
absl::StatusOr<v1::AgentStatus> Server::Impl::WhatItSays(Stream* stream, const grpc::ByteBuffer& bytes) {
  if (!stream->admitted && ++stream->heard > kMaxStatusesUnadmitted) {
    return absl::ResourceExhaustedError(absl::StrCat("it sent more than ", kMaxStatusesUnadmitted,
                                                     " statuses, and no agent was admitted on its connection"));
  }
  const bool is_named = !stream->speaker.host_id().empty();
  if (is_named) RETURN_IF_ERROR(CountStatusOf(stream->speaker.host_id()));
  ASSIGN_OR_RETURN(v1::AgentStatus status, StatusIn(bytes));
  RETURN_IF_ERROR(stream->speaker.Hear(status, stream->peer.binding));
  if (!is_named && !stream->speaker.host_id().empty()) {
    RETURN_IF_ERROR(CountStatusOf(stream->speaker.host_id()));
  }
  return status;
}

absl::Status Server::Impl::CountStatusOf(const std::string& host_id) {
  if (rates_.Take(EventLoop::Now(), host_id)) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("it sent more than ", kStatusesPerSecond, " statuses a second"));
}

// The stream counts as lost for the host that it belongs to.
void Server::Impl::TurnAway(Stream* stream, const absl::Status& why) {
  const std::string text(AsStd(why.message()));
  events_->OnTurnedAway(stream->peer.ip, text);
  events_->OnClosed(stream->id);
  Close(stream->id, {grpc::StatusCode::UNAUTHENTICATED, text});
}

void Server::Impl::Advance(Stream* stream) {
  if (stream->writing || stream->finishing) return Release(stream);
  if (stream->waiting.has_value() && !stream->write_failed) {
    stream->outgoing = BytesOf(*stream->waiting);
    stream->waiting.reset();
    stream->writing = true;
    stream->io.Write(stream->outgoing, &stream->written);
  } else if (stream->closing.has_value()) {
    stream->finishing = true;
    stream->io.Finish(*stream->closing, &stream->ended);
  }
}

void Server::Impl::OnWritten(Stream* stream, bool ok) {
  stream->writing = false;
  if (!ok) stream->write_failed = true;  // the read fails as well and handles the end
  Advance(stream);
}

void Server::Impl::Release(Stream* stream) {
  if (!stream->finished || stream->reading || stream->writing) return;
  if (stream->admitted) {
    --admitted_;
    gate_->SetAdmitted(stream->peer.id, false);
  }
  streams_.erase(stream->id);
}

void Server::Impl::Send(StreamId id, const v1::Directive& directive) {
  const auto it = streams_.find(id);
  if (it == streams_.end() || it->second->closing.has_value()) return;
  if (directive.ByteSizeLong() > static_cast<size_t>(kMaxMessageBytes)) {
    return Close(id, {grpc::StatusCode::INTERNAL, "a directive exceeds the size limit of a message"});
  }
  it->second->waiting = directive;
  Advance(it->second.get());
}

void Server::Impl::Close(StreamId id, grpc::Status why) {
  const auto it = streams_.find(id);
  if (it == streams_.end() || it->second->closing.has_value()) return;
  it->second->closing = std::move(why);
  Advance(it->second.get());
}

void Server::Impl::Shutdown() {
  if (stopping_ || server_ == nullptr) return;
  stopping_ = true;
  questions_.Stop();
  gate_->StopAccepting();  // gRPC would leave a connection open that comes later
  for (auto& [id, stream] : streams_) {
    if (stream->finishing) continue;
    if (stream->writing) {
      stream->context.TryCancel();  // gRPC allows no Finish while a write is in progress
      continue;
    }
    stream->finishing = true;
    stream->io.Finish({grpc::StatusCode::UNAVAILABLE, kShuttingDown}, &stream->ended);
  }
  server_->Shutdown(Deadline(kServerShutdownLimit));
  thread_->Join();
  streams_.clear();
  accepting_.reset();
  questions_.Clear();
  gate_->Drain(kLastBytesLimit);
  gate_.reset();
  server_.reset();
}

absl::StatusOr<std::unique_ptr<Server>> Server::Start(const ServerOptions& options, Post post,
                                                      StreamEvents* events) {
  MUSTER_CHECK(events != nullptr, "a server needs a receiver of stream events");
  auto impl = std::make_unique<Impl>(options, std::move(post), events);
  RETURN_IF_ERROR(impl->Start());
  return std::unique_ptr<Server>(new Server(std::move(impl)));
}

Server::Server(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Server::~Server() { impl_->Shutdown(); }
int Server::port() const { return impl_->port(); }
size_t Server::members() const { return impl_->members(); }
size_t Server::streams() const { return impl_->streams(); }
std::string Server::PeerOf(StreamId stream) const { return impl_->PeerOf(stream); }
void Server::Send(StreamId stream, const v1::Directive& directive) { impl_->Send(stream, directive); }
void Server::Close(StreamId stream, const std::string& reason) {
  impl_->Close(stream, {grpc::StatusCode::ABORTED, reason});
}
void Server::Admit(StreamId stream) { impl_->Admit(stream); }
void Server::StopListening() { impl_->StopListening(); }
void Server::Shutdown() { impl_->Shutdown(); }

}  // namespace muster::rendezvous
