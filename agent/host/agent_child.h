// The agent of this node as its host sees it: a process, and the link to it. One at a time; a new one takes the
// place of the one before, which must not speak, nor serve, any more when the new one begins.
//
// Lives on the loop thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "agent/host/process/spawner.h"
#include "base/io/event_loop.h"
#include "base/io/framed_link.h"
#include "muster/v1/host.pb.h"

namespace muster::host {

class AgentChild {
 public:
  struct Events {
    std::function<void(const v1::HostDirective&)> on_directive;
    // The link's end and the process's end both mean closed: it may be told twice of one agent.
    std::function<void(uint64_t number)> on_closed;
    std::function<void(uint64_t number, const absl::Status&)> on_failed;  // there is none of that number
  };
  // `arguments` follow those that every agent has; the environment is the agent's own.
  AgentChild(EventLoop* loop, Spawner* spawner, std::vector<std::string> arguments, EnvironmentMap environment,
             Events events);

  void Start(uint64_t number);
  void Close();                             // SIGKILL, and the link's end; nothing if there is none
  void Send(const v1::HostStatus& status);  // lost if there is no link

 private:
  void OnFrame(uint64_t number, std::string_view payload);
  void OnExit(uint64_t number, const Ending& ending);
  void OnClosed(uint64_t number);

  EventLoop* const loop_;
  Spawner* const spawner_;
  std::vector<std::string> arguments_;
  const EnvironmentMap environment_;
  const Events events_;
  uint64_t number_ = 0;
  pid_t pid_ = 0;
  std::unique_ptr<FramedLink> link_;
};

}  // namespace muster::host
