// Checks whether the address that the user gave for this node, the primary, leads to it. The address may belong to
// another machine and still be right (NAT, a load balancer, a published port of a container); then a connection to
// it mostly comes back here. If it does not, muster only warns, since some such paths do not work from the inside.
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

inline constexpr absl::Duration kReachLimit = absl::Seconds(2);  // for the connection to come back
inline constexpr size_t kMaxOwnAddressesShown = 4;

class ReachCheck {
 public:
  // Starts the check at once; the coordinator of this node must be listening. instance: its instance name. warn:
  // called at most once, with one line.
  ReachCheck(const v1::NodeConfig& config, std::shared_ptr<const rendezvous::LiveCredentials> credentials,
             std::string instance, EventLoop* loop, std::function<void(const std::string&)> warn);
  ~ReachCheck();  // blocks until the name is resolved, at most rendezvous::kResolveLimit
  ReachCheck(const ReachCheck&) = delete;
  ReachCheck& operator=(const ReachCheck&) = delete;

  void OnMemberAttached() { done_ = true; }  // proves that the other nodes find this one

 private:
  void OnResolved(const absl::StatusOr<std::vector<std::string>>& addresses, bool local);
  void Conclude(const std::string& why);  // empty: the address leads here

  const v1::NodeConfig config_;
  const std::shared_ptr<const rendezvous::LiveCredentials> credentials_;
  const std::string instance_;
  EventLoop* const loop_;
  const std::function<void(const std::string&)> warn_;
  bool done_ = false;
  std::string address_;  // as resolved, for people
  std::thread resolver_;
  std::unique_ptr<rendezvous::RemoteSession> session_;
};

// The text of the warning. why: how the connection failed.
std::string DescribeUnreached(const v1::NodeConfig& config, const std::string& address, const std::string& why);

}  // namespace muster::agent
