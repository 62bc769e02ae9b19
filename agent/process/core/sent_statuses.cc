#include "agent/process/core/sent_statuses.h"

#include <algorithm>

#include "base/crypto/held.h"
#include "base/wire/ids.h"

namespace muster::agent {

void SentStatuses::BeginSession() {
  first_of_session_ = seq_ + 1;
  held_failure_texts_ = held_cannot_start_texts_ = held_verdict_ = 0;
}

void SentStatuses::Stamp(BootTime now, uint64_t agent_number, const std::string& digest, v1::AgentStatus* status) {
  LeaveOutWhatIsHeld(status);
  agent_number_ = agent_number;
  status->mutable_id()->set_agent_number(agent_number);
  status->mutable_id()->set_seq(++seq_);
  if (digest != last_digest_) ++news_;
  status->set_news(news_);
  last_digest_ = digest;
  last_at_ = now;
  sent_.push_back({seq_, now});
  if (sent_.size() > kMaxSentRemembered) sent_.pop_front();
}

// Every heartbeat contains the failure and the verdict, until the next round or the end of the job, and the reason
// why a node cannot start, as long as the node exists. Their texts are sent until the coordinator of this session
// confirms that it holds them, so that another coordinator can learn all of them from this agent.
void SentStatuses::LeaveOutWhatIsHeld(v1::AgentStatus* status) const {
  const auto leave_out = [](uint64_t held, v1::Failure* failure) {
    failure->set_texts_digest(DigestOfTexts(*failure));
    if (failure->texts_digest() == held) LeaveOutTexts(failure);
  };
  if (status->has_failure()) leave_out(held_failure_texts_, status->mutable_failure());
  if (status->has_cannot_start()) leave_out(held_cannot_start_texts_, status->mutable_cannot_start());
  if (status->has_verdict() && held_verdict_ != 0 && status->verdict().digest() == held_verdict_) {
    *status->mutable_verdict() = Brief(status->verdict());
  }
}

void SentStatuses::OnDirective(const v1::Directive& directive) {
  const v1::StatusId& echo = directive.echo();
  const bool was_sent = echo.agent_number() == agent_number_ && echo.seq() <= seq_;
  if (was_sent) echoed_ = std::max(echoed_, echo.seq());
  held_failure_texts_ = directive.held_failure_texts();
  held_cannot_start_texts_ = directive.held_cannot_start_texts();
  held_verdict_ = directive.held_verdict();
}

std::optional<BootTime> SentStatuses::WhenSent(uint64_t agent_number, const v1::StatusId& echo) {
  if (echo.agent_number() != agent_number) return std::nullopt;
  while (!sent_.empty() && sent_.front().seq < echo.seq()) sent_.pop_front();
  if (sent_.empty() || sent_.front().seq != echo.seq()) return std::nullopt;
  return sent_.front().at;
}

}  // namespace muster::agent
