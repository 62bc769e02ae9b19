// The agent core: turns the coordinator's directive and the host's status into the host's directive and the
// agent's status. It owns one node's part in the job and nothing else.
//
// Pure: an event and the time in, effects out, to be carried out in the order given. Lives on the agent's loop
// thread.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/note.h"
#include "base/time.h"
#include "base/waiting_line.h"
#include "muster/v1/host.pb.h"
#include "muster/v1/rendezvous.pb.h"

namespace muster::agent {

inline constexpr absl::Duration kTick = absl::Milliseconds(100);  // OnTick is called at least this often
inline constexpr absl::Duration kMaxCountedSilence = absl::Milliseconds(250);
inline constexpr absl::Duration kDefaultBeat = absl::Milliseconds(500);
inline constexpr absl::Duration kMinReconnectDelay = absl::Milliseconds(50);
inline constexpr absl::Duration kMaxReconnectDelay = absl::Milliseconds(500);
// Where another job's coordinator answers.
inline constexpr absl::Duration kRefusedRetry = absl::Seconds(1);
inline constexpr absl::Duration kMaxRefusedRetry = absl::Seconds(8);
inline constexpr absl::Duration kFirstReconnectSpacing = absl::Microseconds(100);  // between two agents
inline constexpr absl::Duration kMaxReconnectTurn = absl::Seconds(30);  // of one agent's turn among very many
inline constexpr absl::Duration kConnectLimit = absl::Seconds(5);       // of one attempt
inline constexpr absl::Duration kHostEndWait =
    absl::Seconds(1);  // between a closed link and the pidfd of a dead host
inline constexpr absl::Duration kGoneLimit = absl::Seconds(10);  // to report HOST_GONE
inline constexpr absl::Duration kProbeInterval = absl::Seconds(1);
inline constexpr absl::Duration kLinger = absl::Milliseconds(250);  // of the primary's host, after the last close
inline constexpr size_t kMaxSentRemembered = 256;                   // statuses whose sending time is known

// Effects.
struct SendToCoordinator {
  v1::AgentStatus status;
};
struct SendToHost {
  v1::HostDirective directive;
};
struct Connect {};     // open a session; answer: OnConnected or OnDisconnected
struct Disconnect {};  // close the session in order; no answer
// The host is dead or deaf: SIGKILL it if it lives, wait for its end, end everything it started (by session and by
// the marker in the environment). Answer: OnHostSwept, or OnHostNotSwept.
struct EndHost {
  std::vector<v1::Worker> workers;
  bool kill_first = false;
};
// Look whether a place's former holder lives: its pid, or anything that bears its marker. Answer: OnProbed.
struct Probe {
  v1::Predecessor predecessor;
};
struct ExitAgent {
  int exit_code = 0;
  std::string reason;
};
using Effect = std::variant<SendToCoordinator, SendToHost, Connect, Disconnect, EndHost, Probe, ExitAgent, Note>;
using Effects = std::vector<Effect>;

class AgentCore {
 public:
  // entropy: for the jitter of reconnects.
  explicit AgentCore(uint64_t entropy) : entropy_(entropy) {}

  // The first status brings the configuration and the memory of the agent before this one.
  void OnHostStatus(BootTime now, const v1::HostStatus& status, Effects* out);
  // The link closed but the host's pidfd has not fired: a death shows by both, in either order, within moments; a
  // link that stays closed while the host lives means that a newer agent has taken over.
  void OnHostLinkClosed(BootTime now);
  // The host's pidfd fired.
  void OnHostClosed(BootTime now, Effects* out);
  void OnHostSwept(BootTime now, Effects* out);
  // Some of it could not be ended in time, or not be seen: the host is gone, and nobody can say that all of it is.
  void OnHostNotSwept(const std::string& left, Effects* out);

  void OnConnected(BootTime now, const std::string& local_address, Effects* out);
  void OnDirective(BootTime now, const v1::Directive& directive, Effects* out);
  // why: for people. refused_code: an exit code (77) if the coordinator turned the session away for good, else 0.
  void OnDisconnected(BootTime now, const std::string& why, int refused_code, Effects* out);
  // The address by which others reach this node, where it is learned later than the connection (the primary's own
  // session crosses no network: a member's does).
  void OnLocalAddress(BootTime now, const std::string& address, Effects* out);
  void OnProbed(BootTime now, const std::string& host_id, bool dead, Effects* out);

  // This machine's end was announced; why, in a sentence. The node leaves, as after a SIGTERM.
  void OnNotice(BootTime now, const std::string& why, Effects* out);
  void OnServesOthers(BootTime now, bool others, Effects* out);  // the coordinator is here: others use it

  void OnTick(BootTime now, Effects* out);

  bool configured() const { return configured_; }
  const v1::NodeConfig& config() const { return config_; }
  const v1::Memory& memory() const { return memory_; }
  bool finished() const { return finished_; }

  std::string planted_bug;  // test-only: a bug that the simulation must find; empty in production

 private:
  enum class Link { kDown, kConnecting, kUp };
  struct SentStatus {
    uint64_t seq;
    BootTime at;
  };

  // agent_core.cc: events, and what the host is told.
  void Adopt(BootTime now, const v1::HostStatus& status, Effects* out);
  bool IsNewer(const v1::Directive& directive) const;
  void OnOtherProtocol(BootTime now, uint32_t protocol, Effects* out);
  void OnUnknownOrder(Effects* out);
  void ApplyOrder(BootTime now, const v1::Directive& directive, Effects* out);
  void OnRefused(BootTime now, int exit_code, const std::string& reason, Effects* out);
  bool IsAnotherJobs(int exit_code) const;
  void LearnRound(BootTime now, const v1::Round& round);
  void LearnPrimaryEnded(const v1::Directive& directive);
  void LearnVerdict(const v1::Verdict& verdict);
  std::optional<BootTime> WhenSent(const v1::StatusId& echo);
  void ExtendLease(BootTime now, const v1::Directive& directive);
  void ApplyWait(BootTime now, const v1::Wait& wait, Effects* out);
  void ExitWith(BootTime now, int code, const std::string& reason, Effects* out);
  // Without the coordinator's word. What is known of the job's end comes before why we cannot go on.
  void ExitAlone(BootTime now, int code, const std::string& reason, Effects* out);
  void Leave(const std::string& reason, Effects* out);  // this agent ends
  void TellHost(BootTime now, Effects* out);
  void WatchHost(BootTime now, absl::Duration counted, Effects* out);
  bool Leased() const;
  absl::Duration LeaseDuration() const;
  absl::Duration Beat() const;
  void Narrate(BootTime now, Effects* out);
  void SetWaiting(BootTime now, std::string what, Effects* out);
  void Say(Severity severity, std::string text, Effects* out, const NoteSubject& subject = {}) const;

  // reconnect.cc: when the coordinator is tried.
  void WatchCoordinator(BootTime now, Effects* out);
  void GiveUpOnCoordinator(BootTime now, Effects* out);
  void ReachedAnotherJob(BootTime now, const std::string& reason);
  struct Turn {
    absl::Duration after;   // from the moment when all may begin
    absl::Duration period;  // in which everybody has one turn
  };
  Turn ReconnectTurn(absl::Duration spacing, absl::Duration limit);
  absl::Duration InTurn(absl::Duration delay, absl::Duration free);
  absl::Duration ReconnectDelay();
  absl::Duration RefusedDelay(BootTime now);
  absl::Duration TurnLimit() const;
  absl::Duration CoordinatorTimeout() const;  // the present limit for being without one
  double Random();
  absl::Duration WithJitter(absl::Duration delay);

  // agent_status.cc: what the coordinator is told.
  void TellCoordinator(BootTime now, Effects* out);
  void TellIfChanged(BootTime now, Effects* out);
  void AddForThisSession(BootTime now, v1::AgentStatus* status) const;
  void LeaveOutWhatIsHeld(v1::AgentStatus* status) const;
  v1::AgentStatus MakeStatus(BootTime now) const;
  void DescribeRound(BootTime now, v1::AgentStatus* status) const;
  std::string Digest(v1::AgentStatus status) const;
  v1::Phase CurrentPhase() const;
  bool StartedLast() const;

  uint64_t entropy_;
  bool configured_ = false;
  bool finished_ = false;
  v1::NodeConfig config_;
  v1::HostStatus host_;  // newest
  v1::Memory memory_;    // what the host is to keep for us

  // Towards the host.
  uint64_t host_directive_seq_ = 0;
  v1::HostDirective order_;  // only the order is kept here
  BootTime lease_deadline_ = absl::InfinitePast();
  absl::Duration silence_;
  BootTime last_tick_ = absl::InfinitePast();
  BootTime host_told_at_ = absl::InfinitePast();
  std::optional<BootTime> host_link_closed_at_;
  bool ending_host_ = false;
  bool host_gone_ = false;
  bool serves_others_ = false;
  std::string leave_;  // why this node is to leave; empty: it is not
  BootTime host_ended_at_ = absl::InfinitePast();

  // Towards the coordinator.
  Link link_ = Link::kDown;
  uint64_t status_seq_ = 0;
  std::deque<SentStatus> sent_;
  v1::DirectiveId newest_;
  v1::StatusId echoed_;
  std::string local_address_;
  BootTime born_ = absl::InfinitePast();
  absl::Duration unheard_ = absl::ZeroDuration();  // by our own running time, since then
  BootTime last_contact_ = absl::InfinitePast();   // the coordinator's last word
  BootTime connect_at_ = absl::InfiniteFuture();
  BootTime connect_began_ = absl::InfinitePast();
  BootTime connected_at_ = absl::InfinitePast();
  BootTime last_sent_at_ = absl::InfinitePast();
  uint64_t first_of_session_ = 0;  // seq of its first status
  // What the coordinator of this session holds, by its newest directive; 0: nothing.
  uint64_t held_failure_texts_ = 0;
  uint64_t held_cannot_start_texts_ = 0;
  uint64_t held_verdict_ = 0;
  bool unknown_order_is_said_ = false;
  int place_in_line_ = 0;  // of a spare, by the newest WAIT
  int attempts_ = 0;
  absl::Duration refused_delay_ = absl::ZeroDuration();  // before the newest attempt after a refusal
  bool ever_connected_ = false;
  bool attached_again_ = false;  // no answer yet on this connection, which is not the first
  std::string last_disconnect_;
  std::string probing_;
  BootTime next_probe_ = absl::InfinitePast();
  std::string predecessor_dead_;
  std::string last_digest_;  // of the last status: changes are sent at once

  // Waiting, told at change and then ever more rarely.
  WaitingLine waiting_;
  BootTime gone_deadline_ = absl::InfiniteFuture();
  uint64_t gone_seq_ = 0;
};

}  // namespace muster::agent
