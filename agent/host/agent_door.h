// The agent of a host in a container of its own: it comes over a unix socket, from a sidecar that may be restarted
// at any time. The newest sidecar counts, and it must have the configuration of the first; one that it has
// superseded is refused, so two that run at once do not take the host from each other in turn. Lives on the loop
// thread.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "agent/host/agent_link.h"
#include "agent/host/agent_socket.h"
#include "base/io/event_loop.h"
#include "base/io/frame_exchange.h"
#include "base/io/owned_fd.h"

namespace muster::host {

inline constexpr size_t kMaxVisitors = 8;     // that have not said anything yet; further ones are sent away
inline constexpr size_t kMaxSuperseded = 64;  // earlier sidecars that are remembered

class AgentDoor : public AgentLink {
 public:
  AgentDoor(EventLoop* loop, AgentSocket socket, Events events);
  ~AgentDoor() override;

  void Open();  // call it once the events may be called: on_came follows for the first sidecar

  void Start(uint64_t number) override;

 private:
  struct Pending {
    OwnedFd connection;
    IncomingFrame frame;  // that is awaited
    EventLoop::TimerId limit = 0;
    std::optional<v1::AgentHello> hello;  // once it has come; then the proof is awaited
    std::string hello_bytes;
    std::unique_ptr<TokenProof> proof;
  };

  void Accept();
  void Read(int fd);
  void Drop(int fd);
  void Hear(int fd);
  void Challenge(Pending* visitor);
  void HearProof(int fd);
  void Judge(int fd);
  void TurnAway(int fd, const absl::Status& why);
  bool TakeNewTokens();
  std::string WhyRefused(const v1::AgentHello& hello) const;  // empty: it is accepted
  void NoteSidecar(const std::string& id);

  // A sidecar that is accepted, until Start takes it.
  struct Came {
    OwnedFd connection;
    std::string sidecar_id;
  };

  AgentSocket socket_;
  Came came_;
  std::string newest_;                  // id of the sidecar that was taken last; empty: none
  std::deque<std::string> superseded_;  // ids of earlier ones, the newest at the end
  std::map<int, Pending> pending_;
  EventLoop::TimerId retry_ = 0;
};

}  // namespace muster::host
