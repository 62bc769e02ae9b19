#include "rendezvous/transport/dialing.h"

#include <grpcpp/create_channel_posix.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <future>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/core/status_macros.h"
#include "base/wire/ids.h"
#include "rendezvous/gate/guarded.h"
#include "rendezvous/gate/plain.h"
#include "rendezvous/transport/address.h"
#include "rendezvous/transport/channel_options.h"

namespace muster::rendezvous {
namespace {

std::function<std::unique_ptr<Codec>()> CodecsFor(const std::shared_ptr<const Credentials>& shown, size_t choice) {
  return [shown, choice]() -> std::unique_ptr<Codec> {
    return std::make_unique<Guarded>(shown == nullptr ? PlainClient() : shown->Connect(choice));
  };
}

}  // namespace

// Like getaddrinfo, takes /etc/hosts alone if it has the name. c-ares would also ask the name servers for the
// address family that is missing there, and wait for its limit in each attempt if none answers.
DialTarget TargetOf(const DialPlan& plan, const std::shared_ptr<const Credentials>& shown, size_t choice) {
  const auto resolve = [host = plan.coordinator.host()](const std::atomic<bool>& cancelled) {
    const std::string known = HostsFileAddress(host);
    return ResolveHostOrSelf(known.empty() ? host : known, kNameLimit, &cancelled);
  };
  return {.resolve = resolve,
          .is_own = &IsOwnAddress,
          .port = static_cast<uint16_t>(plan.coordinator.port()),
          .make_codec = CodecsFor(shown, choice),
          .address_limit = kAddressLimit,
          .dead_after = KeepaliveTime(plan.lease)};
}

std::shared_ptr<grpc::Channel> ChannelOver(OwnedFd application, const DialPlan& plan) {
  return grpc::CreateCustomInsecureChannelFromFd(ToString(plan.coordinator), application.Release(),
                                                 ClientArguments(plan.lease));
}

absl::Status Dialled::WhyEnded() const {
  const bool is_over = ended.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
  return is_over ? ended.get() : absl::OkStatus();
}

namespace {

absl::StatusOr<Dialled> DialOnce(const DialPlan& plan, const std::shared_ptr<const Credentials>& shown,
                                 size_t choice, absl::Duration limit) {
  // Shared with the dialer's thread; the first result counts.
  struct Result {
    std::atomic<bool> set = false;
    std::promise<absl::StatusOr<OwnedFd>> promise;
    std::promise<absl::Status> ended;
  };
  const auto result = std::make_shared<Result>();
  const auto set = [result](absl::StatusOr<OwnedFd> value) {
    if (!result->set.exchange(true)) result->promise.set_value(std::move(value));
  };
  const auto end = [result, set](const absl::Status& why) {
    set(why);
    result->ended.set_value(why);
  };
  Dialled dialled;
  dialled.ended = result->ended.get_future().share();
  ASSIGN_OR_RETURN(dialled.dialer,
                   Dialer::Start(TargetOf(plan, shown, choice),
                                 {.on_connected = [set](OwnedFd fd, const DialledAs&) { set(std::move(fd)); },
                                  .on_ended = end}));
  std::future<absl::StatusOr<OwnedFd>> future = result->promise.get_future();
  if (future.wait_for(absl::ToChronoNanoseconds(limit)) != std::future_status::ready) {
    return absl::DeadlineExceededError(absl::StrCat("no connection within ", absl::FormatDuration(limit)));
  }
  ASSIGN_OR_RETURN(OwnedFd application, future.get());
  dialled.channel = ChannelOver(std::move(application), plan);
  return dialled;
}

}  // namespace

absl::StatusOr<Dialled> DialWithin(const DialPlan& plan, absl::Duration limit) {
  const auto shown = plan.credentials == nullptr ? nullptr : plan.credentials->newest().credentials;
  const size_t choices = shown == nullptr ? 1 : shown->choices();
  absl::StatusOr<Dialled> dialled = DialOnce(plan, shown, 0, limit);
  for (size_t choice = 1; choice < choices && absl::IsUnauthenticated(dialled.status()); ++choice) {
    dialled = DialOnce(plan, shown, choice, limit);
  }
  return dialled;
}

}  // namespace muster::rendezvous
