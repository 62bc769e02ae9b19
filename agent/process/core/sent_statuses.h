// Which statuses this agent has sent, which of them the coordinator has seen, and what it holds of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>

#include "base/core/time.h"
#include "muster/v1/rendezvous.pb.h"

namespace muster::agent {

inline constexpr size_t kMaxSentRemembered = 256;  // statuses whose sending time is kept

class SentStatuses {
 public:
  void BeginSession();  // the coordinator of the new session holds nothing
  // Numbers the status and its news, and leaves out the texts that the coordinator of this session holds.
  void Stamp(BootTime now, uint64_t agent_number, const std::string& digest, v1::AgentStatus* status);
  void OnDirective(const v1::Directive& directive);

  uint64_t last_seq() const { return seq_; }
  BootTime last_at() const { return last_at_; }
  // The digest of the last status; a status with another digest is sent at once.
  const std::string& last_digest() const { return last_digest_; }
  // Whether the coordinator has seen the status with this number or one after it.
  bool IsSeen(uint64_t seq) const { return echoed_ >= seq; }
  // Whether it has seen one of this session.
  bool SessionIsSeen() const { return IsSeen(first_of_session_); }
  // When the echoed status was sent; nullopt: not by this agent, or too long ago to be remembered.
  std::optional<BootTime> WhenSent(uint64_t agent_number, const v1::StatusId& echo);

 private:
  void LeaveOutWhatIsHeld(v1::AgentStatus* status) const;

  struct Sent {
    uint64_t seq;
    BootTime at;
  };
  uint64_t agent_number_ = 0;  // this agent's; 0: it has sent nothing
  uint64_t seq_ = 0;
  uint64_t news_ = 0;
  uint64_t first_of_session_ = 0;  // seq of the first status of this session
  std::deque<Sent> sent_;
  BootTime last_at_ = absl::InfinitePast();
  std::string last_digest_;
  uint64_t echoed_ = 0;  // seq of the newest that the coordinator has seen
  // Digests of what the coordinator of this session holds, from its newest directive; 0: nothing.
  uint64_t held_failure_texts_ = 0;
  uint64_t held_cannot_start_texts_ = 0;
  uint64_t held_verdict_ = 0;
};

}  // namespace muster::agent
