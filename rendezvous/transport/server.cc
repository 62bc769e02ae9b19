#include "rendezvous/transport/server.h"

#include <grpcpp/grpcpp.h>

#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "base/check.h"
#include "base/status_macros.h"
#include "muster/v1/rendezvous.grpc.pb.h"
#include "rendezvous/transport/auth.h"
#include "rendezvous/transport/channel_options.h"
#include "rendezvous/transport/completion_thread.h"
#include "rendezvous/transport/peer_address.h"

namespace muster::rendezvous {
namespace {

constexpr char kShuttingDown[] = "the coordinator is shutting down";

// A relative time: the wall clock may be set meanwhile.
gpr_timespec Deadline(absl::Duration from_now) {
  return gpr_time_from_millis(absl::ToInt64Milliseconds(from_now), GPR_TIMESPAN);
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

  int port() const { return port_; }
  size_t streams() const { return streams_.size(); }
  std::string PeerOf(StreamId id) const {
    const auto it = streams_.find(id);
    return it == streams_.end() ? "" : PeerAddress(it->second->context.peer());
  }

 private:
  // One agent's stream. Destroyed when no operation of it is outstanding.
  struct Stream {
    StreamId id = 0;
    grpc::ServerContext context;
    grpc::ServerAsyncReaderWriter<v1::Directive, v1::AgentStatus> io{&context};
    v1::AgentStatus incoming;              // belongs to gRPC while reading
    v1::Directive outgoing;                // belongs to gRPC while writing
    std::optional<v1::Directive> waiting;  // the newest one; its write has not begun
    std::optional<grpc::Status> closing;   // the final status, sent once everything is written
    bool reading = false;
    bool writing = false;
    bool write_failed = false;
    bool finishing = false;
    bool finished = false;
    Tag accepted, read, written, ended;
  };

  void Accept();
  void OnAccepted(bool ok);
  grpc::Status Admit(const Stream& stream) const;
  void Read(Stream* stream);
  void OnRead(Stream* stream, bool ok);
  void Advance(Stream* stream);
  void OnWritten(Stream* stream, bool ok);
  void Release(Stream* stream);

  const ServerOptions options_;
  const Post post_;
  StreamEvents* const events_;
  v1::Rendezvous::AsyncService service_;
  int port_ = 0;
  bool stopping_ = false;
  StreamId next_id_ = 1;
  std::unique_ptr<Stream> accepting_;
  std::map<StreamId, std::unique_ptr<Stream>> streams_;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<CompletionThread> thread_;  // joined before the streams are destroyed
};

absl::Status Server::Impl::Start() {
  ASSIGN_OR_RETURN(const std::vector<std::string> addresses, UsableAddresses(options_.listen));
  grpc::ServerBuilder builder;
  ConfigureServer(options_.lease, &builder);
  for (const std::string& address : addresses) {
    builder.AddListeningPort(address, grpc::InsecureServerCredentials(), port_ == 0 ? &port_ : nullptr);
    // Port 0 would become a different port for each address.
    if (options_.listen.port == 0) break;
  }
  builder.RegisterService(&service_);
  std::unique_ptr<grpc::ServerCompletionQueue> queue = builder.AddCompletionQueue();
  server_ = builder.BuildAndStart();
  if (server_ == nullptr || port_ == 0) {
    server_.reset();
    queue->Shutdown();
    void* tag = nullptr;
    bool ok = false;
    while (queue->Next(&tag, &ok)) {
    }
    // Rare: UsableAddresses has just found the port free.
    return absl::UnavailableError("cannot listen on " + addresses.front() +
                                  ": another process has just taken the port");
  }
  thread_ = std::make_unique<CompletionThread>(std::move(queue), post_);
  if (absl::Status status = thread_->status(); !status.ok()) {
    server_->Shutdown();
    thread_->Join();
    server_.reset();
    return status;
  }
  Accept();
  return absl::OkStatus();
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
  streams_.emplace(stream->id, std::move(owned));
  stream->read.done = [this, stream](bool read_ok) { OnRead(stream, read_ok); };
  stream->written.done = [this, stream](bool write_ok) { OnWritten(stream, write_ok); };
  stream->ended.done = [this, stream](bool) {
    stream->finished = true;
    Release(stream);
  };
  if (grpc::Status refusal = Admit(*stream); !refusal.ok()) {
    events_->OnTurnedAway(PeerAddress(stream->context.peer()), refusal.error_message());
    stream->closing = std::move(refusal);
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

grpc::Status Server::Impl::Admit(const Stream& stream) const {
  if (streams_.size() > kMaxStreams) {
    return {grpc::StatusCode::RESOURCE_EXHAUSTED,
            "the coordinator has reached its limit of " + std::to_string(kMaxStreams) + " agents"};
  }
  const auto& metadata = stream.context.client_metadata();
  const auto it = metadata.find(kTokenKey);
  const std::string_view presented =
      it == metadata.end() ? std::string_view() : std::string_view(it->second.data(), it->second.size());
  if (TokenMatches(options_.token, presented)) return grpc::Status::OK;
  return {grpc::StatusCode::UNAUTHENTICATED,
          it == metadata.end() ? "this job requires a token and this node sent none: set MUSTER_TOKEN"
                               : "the token is not this job's: set the same MUSTER_TOKEN on all nodes"};
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
  const v1::AgentStatus status = std::move(stream->incoming);
  stream->incoming.Clear();
  if (!stream->closing.has_value()) events_->OnStatus(stream->id, status);
  // Also while closing: unread data would delay the end of the stream at the peer.
  if (!stream->finished && !stopping_) Read(stream);
}

void Server::Impl::Advance(Stream* stream) {
  if (stream->writing || stream->finishing) return Release(stream);
  if (stream->waiting.has_value() && !stream->write_failed) {
    stream->outgoing = std::move(*stream->waiting);
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
  if (stream->finished && !stream->reading && !stream->writing) streams_.erase(stream->id);
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
size_t Server::streams() const { return impl_->streams(); }
std::string Server::PeerOf(StreamId stream) const { return impl_->PeerOf(stream); }
void Server::Send(StreamId stream, const v1::Directive& directive) { impl_->Send(stream, directive); }
void Server::Close(StreamId stream, const std::string& reason) {
  impl_->Close(stream, {grpc::StatusCode::ABORTED, reason});
}
void Server::Shutdown() { impl_->Shutdown(); }

}  // namespace muster::rendezvous
