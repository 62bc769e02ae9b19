// A real server and real sessions on loopback, with one loop that the test drives until something has happened.
#pragma once

#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/io/event_loop.h"
#include "base/wire/ids.h"
#include "gtest/gtest.h"
#include "rendezvous/transport/remote_session.h"
#include "rendezvous/transport/server.h"

namespace muster::rendezvous {

constexpr absl::Duration kPatience = absl::Seconds(30);  // only a hang reaches it

// Runs the loop until done() is true. False after kPatience.
inline bool RunUntil(EventLoop* loop, const std::function<bool()>& done) {
  const BootTime deadline = EventLoop::Now() + kPatience;
  std::function<void()> look = [&] {
    if (done() || EventLoop::Now() > deadline) return loop->Stop();
    loop->After(absl::Milliseconds(1), look);
  };
  loop->Post(look);
  loop->Run();
  return done();
}

class Attendees : public StreamEvents {
 public:
  void OnOpened(StreamId stream) override {
    opened.insert(stream);
    if (on_opened) on_opened(stream);
  }
  void OnStatus(StreamId stream, const v1::AgentStatus& status) override {
    statuses.emplace_back(stream, status);
    if (on_status) on_status(stream, status);
  }
  void OnClosed(StreamId stream) override { closed.push_back(stream); }
  void OnTurnedAway(const std::string& peer, const std::string& why) override {
    turned_away.push_back(peer + ": " + why);
  }
  absl::Status MayAsk(const std::string& host_id) override {
    questions.push_back(host_id);
    return refusal;
  }
  absl::StatusOr<v1::JobView> OnQuestion(const v1::Question& question) override {
    asked_for_stacks |= question.kind() == v1::Question::KIND_STACKS;
    ++views;
    return view;
  }

  std::vector<std::string> questions;  // host ids of those who had to prove theirs
  int views = 0;                       // that were made
  bool asked_for_stacks = false;
  v1::JobView view;  // the answer, unless it is a refusal
  absl::Status refusal;
  std::set<StreamId> opened;
  std::vector<std::pair<StreamId, v1::AgentStatus>> statuses;
  std::vector<StreamId> closed;
  std::vector<std::string> turned_away;
  std::function<void(StreamId)> on_opened;
  std::function<void(StreamId, const v1::AgentStatus&)> on_status;
};

inline std::shared_ptr<LiveCredentials> WithToken(const std::string& token) {
  return std::make_shared<LiveCredentials>(TokenCredentials({token}, "run"));
}

// One agent's session and everything it received.
struct Client {
  Client(EventLoop* loop, const std::string& host, int port, const std::string& token = "",
         absl::Duration limit = absl::Seconds(5), bool reached_before = false, Identity identity = {}) {
    RemoteSessionOptions options;
    options.host = std::move(identity);
    options.reached_before = reached_before;
    options.dial.coordinator.set_host(host);
    options.dial.coordinator.set_port(static_cast<uint32_t>(port));
    if (!token.empty()) options.dial.credentials = WithToken(token);
    options.dial.lease = absl::Seconds(10);
    options.connect_limit = limit;
    session = std::make_unique<RemoteSession>(
        options, loop,
        SessionEvents{.on_connected =
                          [this](const std::string& address) {
                            ++connected;
                            local_address = address;
                          },
                      .on_directive = [this](const v1::Directive& d) { directives.push_back(d); },
                      .on_disconnected =
                          [this](const std::string& text, int code) {
                            ++disconnected;
                            why = text;
                            refused = code;
                          },
                      .on_closed = [this] { ++closed; }});
  }

  int connected = 0;
  int disconnected = 0;
  int closed = 0;
  int refused = 0;
  std::string why;
  std::string local_address;
  std::vector<v1::Directive> directives;
  std::unique_ptr<RemoteSession> session;
};

class WireTest : public ::testing::Test {
 protected:
  ServerOptions Options(const std::string& host = "127.0.0.1", int port = 0) {
    ServerOptions options;
    options.listen = {.host = host, .port = static_cast<uint16_t>(port), .loopback_only = true};
    options.version = "test";
    options.lease = absl::Seconds(10);
    return options;
  }
  absl::StatusOr<std::unique_ptr<Server>> TryServe(const ServerOptions& options) {
    return Server::Start(
        options, [this](std::function<void()> closure) { loop_.Post(std::move(closure)); }, &attendees_);
  }
  std::unique_ptr<Server> Serve(const ServerOptions& options) {
    auto server = TryServe(options);
    EXPECT_TRUE(server.ok()) << server.status();
    return server.ok() ? *std::move(server) : nullptr;
  }
  bool Until(const std::function<bool()>& done) { return RunUntil(&loop_, done); }

  static v1::AgentStatus Status(uint64_t seq) {
    v1::AgentStatus status;
    status.set_protocol(kProtocol);
    status.mutable_id()->set_seq(seq);
    return status;
  }
  static v1::AgentStatus StatusOf(const std::string& host_id, uint64_t seq = 1) {
    v1::AgentStatus status = Status(seq);
    status.set_host_id(host_id);
    return status;
  }
  static v1::Directive Directive(uint64_t seq) {
    v1::Directive directive;
    directive.set_protocol(kProtocol);
    directive.mutable_id()->set_seq(seq);
    return directive;
  }

  EventLoop loop_;
  Attendees attendees_;
};

}  // namespace muster::rendezvous
