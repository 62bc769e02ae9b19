#include "rendezvous/core/port_retry.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/exit_codes.h"

namespace muster::rendezvous {

std::string DescribeUsedPort(const std::optional<PortHolder>& holder, const PortUser& user) {
  const std::string advice = absl::StrCat(
      "stop it, or pass ", user.runs_alone ? "another port to --listen here and --coordinator on all nodes"
                                           : "another --master-port on all nodes");
  const std::string port = absl::StrCat("port ", user.port, " is used by ");
  if (!holder) {
    return absl::StrCat(port, "a process of another user or container, which cannot be seen from here; ", advice);
  }
  const std::string used = absl::StrCat(port, holder->name, " (pid ", holder->pid, ")");
  if (holder->is_muster) {
    const char* const likely = "; if it is another node of this job, two nodes have --node-rank 0";
    return absl::StrCat(used, user.runs_alone || user.has_served ? "" : likely,
                        "; if its run is ending, the port is free in a moment; else ", advice);
  }
  return absl::StrCat(used, holder->listens ? "" : " for an outgoing connection", "; ", advice);
}

void PortRetry::SetHolder(BootTime now, std::optional<PortHolder> holder) {
  holder_ = std::move(holder);
  searched_at_ = now;
}

// The nodes of a coordinator that has served wait for it, and their workers run until their leases end: the holder
// may release the port in time. Without a running job nothing is lost by giving up soon with a clear message.
absl::Duration PortRetry::LimitFor(const PortUser& user) const {
  if (user.has_served) return std::max(kReturnLimit, user.lease);
  const bool foreign = holder_ && !holder_->is_muster;
  return foreign ? kForeignPortLimit : kBindRetryLimit;
}

PortRetry::Next PortRetry::OnFailure(BootTime now, const absl::Status& error, const PortUser& user) {
  if (!failing_since_) failing_since_ = now;
  const bool in_use = absl::IsUnavailable(error);
  const bool exhausted = absl::IsResourceExhausted(error);
  Next next{in_use ? DescribeUsedPort(holder_, user) : std::string(error.message())};
  const bool may_pass = in_use || (exhausted && user.has_served);
  const absl::Duration limit = LimitFor(user);
  if (may_pass && now - *failing_since_ < limit) {
    absl::StrAppend(&next.why, "; gives up after ", absl::FormatDuration(limit));
    return next;
  }
  next.exit_code = exhausted ? kExitFault : kExitUnavailable;
  return next;
}

PortRetry::Next PortRetry::OnNoCoordinator(BootTime now, const std::string& why, bool no_coordinator) {
  if (!failing_since_) failing_since_ = now;
  if (!holder_) return {why};
  const bool hopeless = no_coordinator && !holder_->is_muster && now - *failing_since_ >= kBindRetryLimit;
  return {absl::StrCat(why, "; on this machine that port is used by ", holder_->name, " (pid ", holder_->pid, ")"),
          hopeless ? kExitUnavailable : 0};
}

}  // namespace muster::rendezvous
