// Whether the address that was given for this node, the primary, leads to it. It may be no address of this machine
// and yet be right (NAT, a load balancer, a published port of a container): then a connection to it most often
// comes back. One that does not is worth a warning, not a refusal: not every such way can be gone from the inside.
// Lives on the loop thread.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/io/event_loop.h"
#include "muster/v1/host.pb.h"
#include "rendezvous/transport/remote_session.h"

namespace muster::agent {

inline constexpr absl::Duration kReachLimit = absl::Seconds(2);  // for a connection to come back
inline constexpr size_t kMaxOwnAddressesShown = 4;

class ReachCheck {
 public:
  // Begins at once; the coordinator of this node listens already. instance: what it calls itself. warn: called
  // once at most, with one line.
  ReachCheck(const v1::NodeConfig& config, std::string instance, EventLoop* loop,
             std::function<void(const std::string&)> warn);
  ~ReachCheck();  // blocks until the name is resolved, at most rendezvous::kResolveLimit
  ReachCheck(const ReachCheck&) = delete;
  ReachCheck& operator=(const ReachCheck&) = delete;

  void OnMemberAttached() { done_ = true; }  // they find this node

 private:
  void OnResolved(const absl::StatusOr<std::vector<std::string>>& addresses, bool local);
  void Conclude(const std::string& why);  // empty: it leads here

  const v1::NodeConfig config_;
  const std::string instance_;
  EventLoop* const loop_;
  const std::function<void(const std::string&)> warn_;
  bool done_ = false;
  std::string address_;  // as resolved, for people
  std::thread resolver_;
  std::unique_ptr<rendezvous::RemoteSession> session_;
};

// The warning. why: how the connection failed.
std::string DescribeUnreached(const v1::NodeConfig& config, const std::string& address, const std::string& why);

}  // namespace muster::agent
