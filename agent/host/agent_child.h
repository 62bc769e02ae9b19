// The agent of this node as its host sees it: a process and the link to it. There is one at a time: a new agent
// starts only after the previous one was killed and its link closed, so two agents never send or serve at once.
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
    // Called when the link closes and when the process ends, so possibly twice for one agent.
    std::function<void(uint64_t number)> on_closed;
    std::function<void(uint64_t number, const absl::Status&)> on_failed;  // the agent could not be started
  };
  // `arguments` are appended to "agent --fd 3". `environment` is the agent's, less the worker marker.
  AgentChild(EventLoop* loop, Spawner* spawner, std::vector<std::string> arguments, EnvironmentMap environment,
             Events events);

  void Start(uint64_t number);
  void Close();                             // SIGKILL, then closes the link; no effect without an agent
  void Send(const v1::HostStatus& status);  // dropped if there is no link

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
