#include "rendezvous/core/port_retry.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/exit_codes.h"

namespace muster::rendezvous {

std::string DescribePortHolder(const std::optional<PortHolder>& holder) {
  constexpr char kAdvice[] = "end it, or give all nodes another port";
  if (!holder) {
    return absl::StrCat(
        "no process that can be seen from here has it, so it is another user's or another container's: ", kAdvice);
  }
  const std::string who = absl::StrCat("process ", holder->pid, " (", holder->name, ") has it");
  if (holder->is_muster) {
    return absl::StrCat(who, ": if its run is ending, the port is free in a moment; else ", kAdvice);
  }
  return absl::StrCat(who, holder->listens ? "" : " for a connection of its own", ": ", kAdvice);
}

void PortRetry::SetHolder(BootTime now, std::optional<PortHolder> holder) {
  holder_ = std::move(holder);
  searched_at_ = now;
}

// A coordinator that has served is waited for by its nodes, whose workers run on until their leases end: whatever
// has its port may give it back in time. Without a job there is nothing to lose by ending soon, and by saying why.
absl::Duration PortRetry::LimitFor(const PortUser& user) const {
  if (user.has_served) return std::max(kReturnLimit, user.lease);
  const bool foreign = holder_ && !holder_->is_muster;
  return foreign ? kForeignPortLimit : kBindRetryLimit;
}

PortRetry::Next PortRetry::OnFailure(BootTime now, const absl::Status& error, const PortUser& user) {
  if (!failing_since_) failing_since_ = now;
  const bool in_use = absl::IsUnavailable(error);
  const bool exhausted = absl::IsResourceExhausted(error);
  Next next{std::string(error.message())};
  if (in_use) absl::StrAppend(&next.why, ": ", DescribePortHolder(holder_));
  const bool may_pass = in_use || (exhausted && user.has_served);
  if (may_pass && now - *failing_since_ < LimitFor(user)) return next;
  next.exit_code = exhausted ? kExitFault : kExitUnavailable;
  return next;
}

PortRetry::Next PortRetry::OnNoCoordinator(BootTime now, const std::string& why, bool no_coordinator) {
  if (!failing_since_) failing_since_ = now;
  if (!holder_) return {why};
  const bool hopeless = no_coordinator && !holder_->is_muster && now - *failing_since_ >= kBindRetryLimit;
  return {absl::StrCat(why, "; on this machine process ", holder_->pid, " (", holder_->name, ") has that port"),
          hopeless ? kExitUnavailable : 0};
}

}  // namespace muster::rendezvous
