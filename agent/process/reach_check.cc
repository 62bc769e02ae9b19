#include "agent/process/reach_check.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/io/thread.h"
#include "base/text/text.h"
#include "rendezvous/transport/address.h"
#include "rendezvous/transport/serving.h"

namespace muster::agent {

ReachCheck::ReachCheck(const v1::NodeConfig& config,
                       std::shared_ptr<const rendezvous::LiveCredentials> credentials, std::string instance,
                       EventLoop* loop, std::function<void(const std::string&)> warn)
    : config_(config),
      credentials_(std::move(credentials)),
      instance_(std::move(instance)),
      loop_(loop),
      warn_(std::move(warn)) {
  absl::StatusOr<std::thread> resolver = StartThread([this, host = config_.primary().host()] {
    const absl::StatusOr<std::vector<std::string>> addresses = rendezvous::ResolveHost(host);
    const bool local = addresses.ok() && std::any_of(addresses->begin(), addresses->end(), [](const auto& one) {
                         return rendezvous::IsLocalAddress(one).value_or(true);
                       });
    loop_->Post([this, addresses, local] { OnResolved(addresses, local); });
  });
  if (resolver.ok()) resolver_ = *std::move(resolver);  // without a thread there is no check and no warning
}

ReachCheck::~ReachCheck() {
  if (resolver_.joinable()) resolver_.join();
}

// A warning is enough: a name that does not resolve here may resolve elsewhere, or later.
void ReachCheck::OnResolved(const absl::StatusOr<std::vector<std::string>>& addresses, bool local) {
  if (local || done_) return;
  if (!addresses.ok()) {
    done_ = true;
    warn_(absl::StrCat(config_.primary_source(), ": ", addresses.status().message(),
                       ": the other nodes use this name to find this node"));
    return;
  }
  address_ = addresses->front();
  const auto end = [this](const std::string& why) { loop_->Post([this, why] { Conclude(why); }); };
  session_ = std::make_unique<rendezvous::RemoteSession>(
      rendezvous::RemoteSessionOptions{
          .dial = rendezvous::DialPlanFrom(config_, credentials_), .host = {}, .connect_limit = kReachLimit},
      loop_,
      rendezvous::SessionEvents{
          .on_connected =
              [this, end](const std::string&) {
                end(session_->server_instance() == instance_ ? "" : "another muster answers there");
              },
          .on_directive = [](const v1::Directive&) {},
          .on_disconnected = [end](const std::string& why, int) { end(why); },
          .on_closed = [] {}});
  session_->Connect();
}

void ReachCheck::Conclude(const std::string& why) {
  session_.reset();
  if (std::exchange(done_, true) || why.empty()) return;
  warn_(DescribeUnreached(config_, address_, why));
}

std::string DescribeUnreached(const v1::NodeConfig& config, const std::string& address, const std::string& why) {
  const std::string& host = config.primary().host();
  const std::string own = JoinAtMost(rendezvous::OwnAddresses(), kMaxOwnAddressesShown);
  return absl::StrCat(config.primary_source(), " ", host, host == address ? "" : absl::StrCat(" (", address, ")"),
                      " is not an address of this machine, and a connection to it does not come back here (", why,
                      "): unless it is forwarded to this machine, the other nodes cannot find this node; pass the "
                      "address of node 0",
                      own.empty() ? "" : absl::StrCat(" (this machine has ", own, ")"),
                      ", or, if this is not node 0, its own --node-rank");
}

}  // namespace muster::agent
