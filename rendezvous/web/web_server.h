// The web server of a coordinator (--http): metrics, health, and a page with the state of the job. It has a thread
// of its own, so that no visitor costs the job's loop more than one look in kLookKept. Visitors are bounded in
// number, time and bytes. Lives on the loop thread.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/core/note.h"
#include "base/core/time.h"
#include "base/io/event_loop.h"
#include "muster/v1/control.pb.h"
#include "muster/v1/host.pb.h"
#include "rendezvous/web/web_answers.h"

namespace muster::rendezvous {

inline constexpr int kMaxWebVisitors = 64;
inline constexpr absl::Duration kWebVisitLimit = absl::Seconds(10);  // without a byte from or to a visitor
inline constexpr absl::Duration kWebStay = absl::Minutes(1);         // of a visitor in all
inline constexpr size_t kMaxWebRequestBytes = 8 * 1024;
// A look at the job serves all visitors within this time.
inline constexpr absl::Duration kLookKept = absl::Milliseconds(500);
inline constexpr absl::Duration kLookLimit = absl::Seconds(5);  // for the job's loop to answer
inline constexpr absl::Duration kListenAgain = absl::Seconds(1);

class WebServer {
 public:
  struct Plan {
    std::string address;  // "127.0.0.1:9400", "[::]:9400"; an IP address and a port
    WebAccess access;
  };
  // look: the job at this moment; nullopt: the coordinator has not begun. Called on the loop thread.
  WebServer(EventLoop* loop, Plan plan, std::function<std::optional<v1::JobView>()> look,
            std::function<void(const Note&)> note);
  ~WebServer();
  WebServer(const WebServer&) = delete;
  WebServer& operator=(const WebServer&) = delete;

  // To be called now and then: listens as soon as the address is free.
  void OnTick(BootTime now);

  int port() const { return port_; }  // 0: it does not listen yet

 private:
  class Thread;
  struct Looking;

  absl::Status Listen();

  const Plan plan_;
  const std::function<void(const Note&)> note_;
  const std::shared_ptr<Looking> looking_;
  std::unique_ptr<Thread> thread_;  // once it listens
  int port_ = 0;
  BootTime listen_at_ = absl::InfinitePast();
  std::string complained_;  // the newest reason why it does not listen
};

WebServer::Plan WebPlanFrom(const v1::NodeConfig& config);

}  // namespace muster::rendezvous
