// The agent of this node as its host sees it: a link, and perhaps a process behind it. There is one at a time: the
// link to the previous agent is closed before there is a new one, so two agents never speak for this host at once.
//
// There are two forms, and both obey tests/unit/agent/host/agent_link_test.cc: AgentChild starts an agent as a
// child process, AgentDoor waits for one that a sidecar has started. Lives on the loop thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>

#include "absl/status/status.h"
#include "base/io/event_loop.h"
#include "base/io/framed_link.h"
#include "muster/v1/host.pb.h"

namespace muster::host {

class AgentLink {
 public:
  struct Events {
    std::function<void(const v1::HostDirective&)> on_directive;
    // Called when the link closes and when the process ends, so possibly twice for one agent.
    std::function<void(uint64_t number)> on_closed;
    std::function<void(uint64_t number, const absl::Status&)> on_failed;  // the agent could not be started
    std::function<void()> on_came = {};  // an agent has come by itself; Start() takes it
  };
  virtual ~AgentLink() = default;

  virtual void Start(uint64_t number) = 0;
  virtual void Close() { link_.reset(); }   // no effect without an agent
  void Send(const v1::HostStatus& status);  // dropped if there is no link

 protected:
  AgentLink(EventLoop* loop, Events events);

  void Attach(uint64_t number, int fd);  // the link to this agent from now on; takes ownership
  void OnClosed(uint64_t number);

  EventLoop* loop() const { return loop_; }
  const Events& events() const { return events_; }
  uint64_t number() const { return number_; }

 private:
  void OnFrame(uint64_t number, std::string_view payload);

  EventLoop* const loop_;
  const Events events_;
  uint64_t number_ = 0;  // of the agent that Attach was last called for
  std::unique_ptr<FramedLink> link_;
};

}  // namespace muster::host
