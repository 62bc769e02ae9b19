#include "rendezvous/transport/remote_session.h"

#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

#include <utility>

#include "base/core/check.h"
#include "base/core/status_macros.h"
#include "base/exit_codes.h"
#include "base/text/duration.h"
#include "base/wire/ids.h"
#include "rendezvous/transport/channel_options.h"
#include "rendezvous/transport/received_directive.h"
#include "rendezvous/transport/session_error.h"
#include "rendezvous/transport/speaker.h"

namespace muster::rendezvous {
namespace {

constexpr char kAttend[] = "/muster.v1.Rendezvous/Attend";
constexpr char kTriesNext[] = "; the next attempt shows the other token, or the file's new content";

absl::StatusOr<v1::Directive> DirectiveIn(const grpc::ByteBuffer& bytes) {
  grpc::Slice whole;
  if (!bytes.DumpToSingleSlice(&whole).ok()) return absl::ResourceExhaustedError("its order could not be read");
  return ReadDirective({reinterpret_cast<const char*>(whole.begin()), whole.size()});
}

}  // namespace

// One connection with one call. Destroyed when no operation of it is outstanding.
struct RemoteSession::Attempt {
  std::shared_ptr<bool> alive = std::make_shared<bool>(true);  // for closures that the dialer's thread posts
  std::unique_ptr<Dialer> dialer;
  absl::Status dial_error;  // why the dialer's connection has ended; OK: it has not
  DialledAs as;
  std::shared_ptr<grpc::Channel> channel;
  grpc::ClientContext context;
  // Bytes, not directives: gRPC would parse one of another protocol as if it were of ours.
  std::unique_ptr<grpc::ClientAsyncReaderWriter<v1::AgentStatus, grpc::ByteBuffer>> io;
  grpc::ByteBuffer incoming;               // belongs to gRPC while reading
  v1::AgentStatus outgoing;                // belongs to gRPC while writing
  std::optional<v1::AgentStatus> waiting;  // the newest one; its write has not begun
  absl::Status unreadable;                 // what was wrong with the last directive; OK: nothing
  grpc::Status result;
  EventLoop::TimerId connect_timer = 0;
  bool connected = false;
  bool too_late = false;
  bool writing = false;
  bool write_failed = false;
  bool disconnecting = false;  // an orderly end: remaining writes, then WritesDone
  bool writes_done = false;
  bool proved = false;  // the first status is on its way, with the host's proof
  bool finishing = false;
  int outstanding = 0;
  Tag started, metadata, read, written, finished;
};

RemoteSession::RemoteSession(RemoteSessionOptions options, EventLoop* loop, SessionEvents events)
    : options_(std::move(options)),
      target_(options_.server_name + " at " + ToString(options_.dial.coordinator)),
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

  DialPlan plan = options_.dial;
  if (by_address_) plan.coordinator.set_host(options_.address);
  attempt->connect_timer = loop_->After(options_.connect_limit, [this, attempt] { OnTooLate(attempt); });
  Dialer::Events events;
  events.on_connected = [this, attempt, alive = std::weak_ptr<bool>(attempt->alive)](OwnedFd fd,
                                                                                     const DialledAs& as) {
    loop_->Post([this, attempt, alive, as, shared = std::make_shared<OwnedFd>(std::move(fd))] {
      if (!alive.expired()) OnDialled(attempt, std::move(*shared), as);
    });
  };
  events.on_ended = [this, attempt, alive = std::weak_ptr<bool>(attempt->alive)](const absl::Status& why) {
    loop_->Post([this, attempt, alive, why] {
      if (!alive.expired()) OnDialEnded(attempt, why);
    });
  };
  LiveCredentials::Version shown;
  if (plan.credentials != nullptr) shown = plan.credentials->newest();
  const size_t choice = shown.credentials == nullptr ? 0 : turn_.Next(shown.number, shown.credentials->choices());
  absl::StatusOr<std::unique_ptr<Dialer>> dialer =
      Dialer::Start(TargetOf(plan, shown.credentials, choice), events);
  if (dialer.ok()) {
    attempt->dialer = *std::move(dialer);
  } else {
    events.on_ended(dialer.status());
  }
}

void RemoteSession::OnDialled(Attempt* attempt, OwnedFd application, const DialledAs& as) {
  if (attempt->finishing || attempt->disconnecting) return;
  attempt->as = as;
  attempt->channel = ChannelOver(std::move(application), options_.dial);
  grpc::TemplatedGenericStub<v1::AgentStatus, grpc::ByteBuffer> stub(attempt->channel);
  attempt->io = stub.PrepareCall(&attempt->context, kAttend, thread_->queue());
  ++attempt->outstanding;
  attempt->io->StartCall(&attempt->started);
}

void RemoteSession::OnDialEnded(Attempt* attempt, const absl::Status& why) {
  attempt->dial_error = why;
  if (attempt->io == nullptr) EndDial(attempt);
}

// The attempt is over without a call.
void RemoteSession::EndDial(Attempt* attempt) {
  loop_->Cancel(attempt->connect_timer);
  attempt->finishing = true;
  ReportEnd(attempt);
  Release(attempt);
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
  turn_.OnAccepted();
  loop_->Cancel(attempt->connect_timer);
  Read(attempt);
  Advance(attempt);
  if (attempt != current_ || attempt->disconnecting) return;
  const auto instance = metadata.find(kServerInstanceKey);
  server_instance_ =
      instance == metadata.end() ? "" : std::string(instance->second.data(), instance->second.size());
  events_.on_connected(attempt->as.local_ip);
}

void RemoteSession::OnTooLate(Attempt* attempt) {
  attempt->too_late = true;
  attempt->io == nullptr ? EndDial(attempt) : attempt->context.TryCancel();
}

void RemoteSession::Read(Attempt* attempt) {
  ++attempt->outstanding;
  attempt->io->Read(&attempt->incoming, &attempt->read);
}

void RemoteSession::OnRead(Attempt* attempt, bool ok) {
  if (!ok) return Finish(attempt);
  const absl::StatusOr<v1::Directive> directive = DirectiveIn(std::exchange(attempt->incoming, {}));
  if (!directive.ok()) {
    attempt->unreadable = directive.status();
    attempt->context.TryCancel();
    return Finish(attempt);
  }
  Read(attempt);
  if (attempt == current_ && !attempt->disconnecting) events_.on_directive(*directive);
}

void RemoteSession::Send(const v1::AgentStatus& status) {
  if (current_ == nullptr || !current_->connected || current_->disconnecting) return;
  current_->waiting = status;
  Advance(current_);
}

void RemoteSession::Advance(Attempt* attempt) {
  if (!attempt->connected || attempt->writing || attempt->write_failed || attempt->finishing) return;
  if (attempt->waiting.has_value()) {
    attempt->outgoing = std::move(*attempt->waiting);
    attempt->waiting.reset();
    if (!options_.host.id.empty() && !std::exchange(attempt->proved, true)) {
      *attempt->outgoing.mutable_proof() =
          ProveHost(options_.host, attempt->outgoing.run_id(), attempt->as.binding);
    }
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
  if (attempt->io == nullptr) {
    loop_->Post([this, attempt, alive = std::weak_ptr<bool>(attempt->alive)] {
      if (!alive.expired()) EndDial(attempt);
    });
    return;
  }
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
  ReportEnd(attempt);
  Release(attempt);
}

void RemoteSession::ReportEnd(Attempt* attempt) {
  if (attempt != current_) return;
  current_ = nullptr;
  if (attempt->disconnecting) return events_.on_closed();
  const bool dialled = attempt->dialer != nullptr && !attempt->connected;
  own_port_ = dialled ? attempt->dialer->own_port() : OwnPort::kNone;
  const SessionError error = ErrorOf(*attempt);
  // Alternates between name and address until one of them connects.
  const bool no_name = !attempt->connected && (attempt->too_late || IsNameError(error));
  by_address_ = no_name && !by_address_ && !options_.address.empty();
  const bool tries_next = !attempt->connected && absl::IsUnauthenticated(attempt->dial_error) && !RefusedForGood();
  events_.on_disconnected(DescribeSessionError(error, target_) + (tries_next ? kTriesNext : ""),
                          tries_next ? 0 : RefusalCode(error.code));
}

bool RemoteSession::RefusedForGood() {
  const auto& live = options_.dial.credentials;
  return live == nullptr || turn_.OnRefused(live->newest().number);
}

// gRPC itself only knows that its end of the socket pair was closed.
SessionError RemoteSession::ErrorOf(const Attempt& attempt) const {
  SessionError error{.code = attempt.result.error_code(),
                     .message = attempt.result.error_message(),
                     .connected = attempt.connected,
                     .reached_before = reached_};
  if (!attempt.unreadable.ok()) {
    error.code = static_cast<int>(attempt.unreadable.code());
    error.message = std::string(AsStd(attempt.unreadable.message()));
    return error;
  }
  const bool by_dialer = !attempt.dial_error.ok() && (!attempt.connected || IsClosedSocket(error));
  if (by_dialer) {
    error.code = static_cast<int>(attempt.dial_error.code());
    error.message = std::string(AsStd(attempt.dial_error.message()));
  } else if (attempt.too_late && !attempt.connected) {
    error.own_limit = muster::FormatDuration(options_.connect_limit);
  } else if (attempt.result.ok() && !attempt.connected) {
    error.code = grpc::StatusCode::UNIMPLEMENTED;  // an answer from a server that is no coordinator
  }
  return error;
}

void RemoteSession::Abandon(Attempt* attempt) {
  loop_->Cancel(attempt->connect_timer);
  if (attempt == current_) current_ = nullptr;
  if (attempt->io != nullptr) return attempt->context.TryCancel();
  attempt->finishing = true;
  Release(attempt);
}

void RemoteSession::Release(Attempt* attempt) {
  if (!attempt->finishing || attempt->outstanding > 0) return;
  attempts_.remove_if([attempt](const std::unique_ptr<Attempt>& other) { return other.get() == attempt; });
}

}  // namespace muster::rendezvous
