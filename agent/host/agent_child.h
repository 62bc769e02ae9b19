// An agent that the host starts as its child: a process and the link to it. A new one starts only after the
// previous one was killed. Lives on the loop thread.
//
// It has two TCP sockets, which every agent inherits. An agent that serves the coordinator listens on one of them,
// and so the port is not free while the next agent starts; but it is once the host has ended.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "agent/host/agent_link.h"
#include "agent/host/process/spawner.h"
#include "base/io/event_loop.h"
#include "base/io/owned_fd.h"

namespace muster::host {

class AgentChild : public AgentLink {
 public:
  // `arguments` are appended to "agent --fd 3". `environment` is the agent's, less the worker marker.
  AgentChild(EventLoop* loop, Spawner* spawner, std::vector<std::string> arguments, EnvironmentMap environment,
             Events events);

  void Start(uint64_t number) override;
  void Close() override;  // SIGKILL, then closes the link

 private:
  void OnExit(uint64_t number, const Ending& ending);

  Spawner* const spawner_;
  std::vector<std::string> arguments_;
  const EnvironmentMap environment_;
  const std::vector<OwnedFd> sockets_;
  pid_t pid_ = 0;
  const std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);  // the spawner may report an exit later
};

}  // namespace muster::host
