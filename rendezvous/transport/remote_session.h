// The session of an agent whose coordinator is in another process: one gRPC stream with its own completion queue
// and thread. Each attempt dials anew, so that the primary's name is resolved again each time.
#pragma once

#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <string>

#include "absl/time/time.h"
#include "base/crypto/identity.h"
#include "base/io/event_loop.h"
#include "muster/v1/rendezvous.grpc.pb.h"
#include "muster/v1/rendezvous.pb.h"
#include "rendezvous/transport/completion_thread.h"
#include "rendezvous/transport/dialing.h"
#include "rendezvous/transport/session.h"
#include "rendezvous/transport/session_error.h"

namespace muster::rendezvous {

struct RemoteSessionOptions {
  DialPlan dial;
  Identity host;                 // for whom it speaks; empty: for no host
  absl::Duration connect_limit;  // for one attempt, including name resolution
  std::string address = "";      // an IP address to try when the name does not resolve; empty: not known
  std::string server_name = "the primary";  // for messages: `muster coordinator` is "the coordinator"
  bool reached_before = false;  // by an earlier process of this node: for messages, as the coordinator was there
};

class RemoteSession : public Session {
 public:
  RemoteSession(RemoteSessionOptions options, EventLoop* loop, SessionEvents events);
  ~RemoteSession() override;  // cancels what is open

  void Connect() override;
  void Send(const v1::AgentStatus& status) override;
  void Disconnect() override;
  OwnPort own_port() const override { return own_port_; }

  // The instance name (kServerInstanceKey) of the coordinator that accepted this agent; empty: it sent none, or no
  // coordinator has accepted it yet.
  const std::string& server_instance() const { return server_instance_; }

 private:
  struct Attempt;

  void OnDialled(Attempt* attempt, OwnedFd application, const DialledAs& as);
  void OnDialEnded(Attempt* attempt, const absl::Status& why);
  void EndDial(Attempt* attempt);
  void OnStarted(Attempt* attempt, bool ok);
  void OnMetadata(Attempt* attempt, bool ok);
  void OnTooLate(Attempt* attempt);
  void OnRead(Attempt* attempt, bool ok);
  void OnWritten(Attempt* attempt, bool ok);
  void OnFinished(Attempt* attempt);
  void Read(Attempt* attempt);
  void Advance(Attempt* attempt);
  void Finish(Attempt* attempt);
  void Abandon(Attempt* attempt);
  void ReportEnd(Attempt* attempt);
  bool RefusedForGood();  // by an attempt that was refused for its credentials
  SessionError ErrorOf(const Attempt& attempt) const;
  void Release(Attempt* attempt);

  const RemoteSessionOptions options_;
  const std::string target_;  // "the primary at host:port", for messages
  EventLoop* const loop_;
  const SessionEvents events_;
  bool reached_;             // the coordinator has accepted this node once
  bool by_address_ = false;  // the next attempt uses options_.address instead of the name
  std::string server_instance_;
  OwnPort own_port_ = OwnPort::kNone;
  CredentialTurn turn_;
  Attempt* current_ = nullptr;
  std::list<std::unique_ptr<Attempt>> attempts_;  // the current one and those that are ending
  std::unique_ptr<CompletionThread> thread_;
};

}  // namespace muster::rendezvous
