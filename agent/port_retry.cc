#include "agent/port_retry.h"

#include "absl/strings/str_cat.h"

namespace muster::agent {

void PortRetry::Search(BootTime now, uint16_t port) {
  if (!failing_since_) failing_since_ = now;
  if (now < searched_at_ + kHolderSearchPause) return;
  holder_ = FindPortHolder(port);
  searched_at_ = now;
}

PortRetry::Next PortRetry::OnFailure(BootTime now, const absl::Status& status, uint16_t port) {
  if (!absl::IsUnavailable(status)) return {std::string(status.message()), true};
  Search(now, port);
  const bool foreign = holder_ && !holder_->is_muster;
  return {absl::StrCat(status.message(), ": ", DescribePortHolder(holder_)),
          now - *failing_since_ >= (foreign ? kForeignPortLimit : kBindRetryLimit)};
}

PortRetry::Next PortRetry::OnNoCoordinator(BootTime now, const std::string& why, bool no_coordinator,
                                           uint16_t port) {
  Search(now, port);
  if (!holder_) return {why, false};
  const bool hopeless = no_coordinator && !holder_->is_muster && now - *failing_since_ >= kBindRetryLimit;
  return {absl::StrCat(why, "; on this machine process ", holder_->pid, " (", holder_->name, ") has that port"),
          hopeless};
}

}  // namespace muster::agent
