#include "rendezvous/transport/remote_session.h"

#include <grpcpp/grpcpp.h>

#include <utility>

#include "base/check.h"
#include "base/duration.h"
#include "base/exit_codes.h"
#include "base/ids.h"
#include "base/status_macros.h"
#include "rendezvous/transport/address.h"
#include "rendezvous/transport/auth.h"
#include "rendezvous/transport/channel_options.h"
#include "rendezvous/transport/peer_address.h"
#include "rendezvous/transport/session_error.h"

namespace muster::rendezvous {
// One channel with one call. Destroyed when no operation of it is outstanding.
struct RemoteSession::Attempt {
  std::shared_ptr<grpc::Channel> channel;
  std::unique_ptr<v1::Rendezvous::Stub> stub;
  grpc::ClientContext context;
  std::unique_ptr<grpc::ClientAsyncReaderWriter<v1::AgentStatus, v1::Directive>> io;
  v1::Directive incoming;                  // belongs to gRPC while reading
  v1::AgentStatus outgoing;                // belongs to gRPC while writing
  std::optional<v1::AgentStatus> waiting;  // the newest one; its write has not begun
  grpc::Status result;
  EventLoop::TimerId connect_timer = 0;
  bool connected = false;
  bool too_late = false;
  bool writing = false;
  bool write_failed = false;
  bool disconnecting = false;  // an orderly end: remaining writes, then WritesDone
  bool writes_done = false;
  bool finishing = false;
  int outstanding = 0;
  Tag started, metadata, read, written, finished;
};

RemoteSession::RemoteSession(RemoteSessionOptions options, EventLoop* loop, SessionEvents events)
    : options_(std::move(options)),
      target_(options_.server_name + " at " + ToString(options_.coordinator)),
      loop_(loop),
      events_(std::move(events)),
      reached_(options_.reached_before),
      thread_(std::make_unique<CompletionThread>(
          std::make_unique<grpc::CompletionQueue>(),
          [loop](std::function<void()> closure) { loop->Post(std::move(closure)); })) {}

RemoteSession::~RemoteSession() {
  for (const auto& attempt : attempts_) {
    loop_->Cancel(attempt->connect_timer);
    attempt->context.TryCancel();
  }
  thread_->Join();
}

void RemoteSession::Connect() {
  if (!thread_->status().ok()) {
    loop_->Post([report = events_.on_disconnected, why = std::string(AsStd(thread_->status().message()))] {
      report(why, kExitFault);
    });
    return;
  }
  if (current_ != nullptr) Abandon(current_);
  auto owned = std::make_unique<Attempt>();
  Attempt* attempt = owned.get();
  attempts_.push_back(std::move(owned));
  current_ = attempt;

  const auto on = [attempt](Tag* tag, std::function<void(bool)> then) {
    tag->done = [attempt, then = std::move(then)](bool ok) {
      --attempt->outstanding;
      then(ok);
    };
  };
  on(&attempt->started, [this, attempt](bool ok) { OnStarted(attempt, ok); });
  on(&attempt->metadata, [this, attempt](bool ok) { OnMetadata(attempt, ok); });
  on(&attempt->read, [this, attempt](bool ok) { OnRead(attempt, ok); });
  on(&attempt->written, [this, attempt](bool ok) { OnWritten(attempt, ok); });
  on(&attempt->finished, [this, attempt](bool) { OnFinished(attempt); });

  v1::Endpoint where = options_.coordinator;
  if (by_address_) where.set_host(options_.address);
  // Like getaddrinfo, take /etc/hosts alone if it has the name. gRPC would also ask the name servers for the
  // address family that is missing there, and wait 3 s in each attempt if none answers.
  if (const std::string known = HostsFileAddress(where.host()); !known.empty()) where.set_host(known);
  attempt->channel = grpc::CreateCustomChannel("dns:///" + ToString(where), grpc::InsecureChannelCredentials(),
                                               ClientArguments(options_.lease));
  attempt->stub = v1::Rendezvous::NewStub(attempt->channel);
  if (!options_.token.empty()) attempt->context.AddMetadata(kTokenKey, options_.token);
  attempt->io = attempt->stub->PrepareAsyncAttend(&attempt->context, thread_->queue());
  attempt->connect_timer = loop_->After(options_.connect_limit, [this, attempt] { OnTooLate(attempt); });
  ++attempt->outstanding;
  attempt->io->StartCall(&attempt->started);
}

void RemoteSession::OnStarted(Attempt* attempt, bool ok) {
  if (!ok) return Finish(attempt);
  ++attempt->outstanding;
  attempt->io->ReadInitialMetadata(&attempt->metadata);
}

void RemoteSession::OnMetadata(Attempt* attempt, bool ok) {
  const auto& metadata = attempt->context.GetServerInitialMetadata();
  const bool accepted = ok && metadata.count(kServerKey) > 0;
  // Refused, or no coordinator: the status of the call shows which.
  if (!accepted) return Finish(attempt);
  attempt->connected = reached_ = true;
  loop_->Cancel(attempt->connect_timer);
  Read(attempt);
  Advance(attempt);
  if (attempt != current_ || attempt->disconnecting) return;
  const auto instance = metadata.find(kServerInstanceKey);
  server_instance_ =
      instance == metadata.end() ? "" : std::string(instance->second.data(), instance->second.size());
  const std::string peer = PeerAddress(attempt->context.peer());
  events_.on_connected(LocalAddressTowards(peer));
}

void RemoteSession::OnTooLate(Attempt* attempt) {
  attempt->too_late = true;
  attempt->context.TryCancel();
}

void RemoteSession::Read(Attempt* attempt) {
  ++attempt->outstanding;
  attempt->io->Read(&attempt->incoming, &attempt->read);
}

void RemoteSession::OnRead(Attempt* attempt, bool ok) {
  if (!ok) return Finish(attempt);
  const v1::Directive directive = std::move(attempt->incoming);
  attempt->incoming.Clear();
  Read(attempt);
  if (attempt == current_ && !attempt->disconnecting) events_.on_directive(directive);
}

void RemoteSession::Send(const v1::AgentStatus& status) {
  if (current_ == nullptr || !current_->connected || current_->disconnecting) return;
  MUSTER_CHECK(status.ByteSizeLong() <= static_cast<size_t>(kMaxMessageBytes), "a status is bounded");
  current_->waiting = status;
  Advance(current_);
}

void RemoteSession::Advance(Attempt* attempt) {
  if (!attempt->connected || attempt->writing || attempt->write_failed || attempt->finishing) return;
  if (attempt->waiting.has_value()) {
    attempt->outgoing = std::move(*attempt->waiting);
    attempt->waiting.reset();
    attempt->writing = true;
    ++attempt->outstanding;
    attempt->io->Write(attempt->outgoing, &attempt->written);
  } else if (attempt->disconnecting && !attempt->writes_done) {
    attempt->writes_done = true;
    attempt->writing = true;
    ++attempt->outstanding;
    attempt->io->WritesDone(&attempt->written);
  }
}

void RemoteSession::OnWritten(Attempt* attempt, bool ok) {
  attempt->writing = false;
  if (!ok) attempt->write_failed = true;  // the read fails, too, and ends the attempt
  Advance(attempt);
  Release(attempt);
}

void RemoteSession::Disconnect() {
  Attempt* attempt = current_;
  if (attempt == nullptr) {
    loop_->Post(events_.on_closed);
    return;
  }
  attempt->disconnecting = true;
  if (!attempt->connected) attempt->context.TryCancel();
  Advance(attempt);
}

// The call is over: requests its status.
void RemoteSession::Finish(Attempt* attempt) {
  if (attempt->finishing) return;
  attempt->finishing = true;
  loop_->Cancel(attempt->connect_timer);
  ++attempt->outstanding;
  attempt->io->Finish(&attempt->result, &attempt->finished);
}

void RemoteSession::OnFinished(Attempt* attempt) {
  if (attempt == current_) {
    current_ = nullptr;
    if (attempt->disconnecting) {
      events_.on_closed();
    } else {
      SessionError error{.code = attempt->result.error_code(),
                         .message = attempt->result.error_message(),
                         .connected = attempt->connected,
                         .reached_before = reached_};
      if (attempt->too_late && !attempt->connected) {
        error.own_limit = muster::FormatDuration(options_.connect_limit);
      } else if (attempt->result.ok() && !attempt->connected) {
        error.code = grpc::StatusCode::UNIMPLEMENTED;  // an answer from a server that is no coordinator
      }
      // Alternates between name and address until one of them connects.
      const bool no_name = !attempt->connected && (attempt->too_late || IsNameError(error));
      by_address_ = no_name && !by_address_ && !options_.address.empty();
      events_.on_disconnected(DescribeSessionError(error, target_), RefusalCode(error.code));
    }
  }
  Release(attempt);
}

void RemoteSession::Abandon(Attempt* attempt) {
  loop_->Cancel(attempt->connect_timer);
  attempt->context.TryCancel();
  if (attempt == current_) current_ = nullptr;
}

void RemoteSession::Release(Attempt* attempt) {
  if (!attempt->finishing || attempt->outstanding > 0) return;
  attempts_.remove_if([attempt](const std::unique_ptr<Attempt>& other) { return other.get() == attempt; });
}

}  // namespace muster::rendezvous
