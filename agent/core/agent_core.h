// The agent core: turns the coordinator's directive and the host's status into the host's directive and the agent's
// status. It owns one node's part in the job and nothing else.
//
// Pure: an event and the time in, effects out, to be carried out in the order given. Lives on the agent's loop thread.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "muster/v1/host.pb.h"
#include "muster/v1/rendezvous.pb.h"
#include "proto/base/note.h"
#include "proto/base/time.h"

namespace muster::agent {

inline constexpr absl::Duration kTick = absl::Milliseconds(100);  // OnTick is called at least this often
inline constexpr absl::Duration kMaxCountedSilence = absl::Milliseconds(250);
inline constexpr absl::Duration kDefaultBeat = absl::Milliseconds(500);
inline constexpr absl::Duration kMinReconnectDelay = absl::Milliseconds(50);
inline constexpr absl::Duration kMaxReconnectDelay = absl::Milliseconds(500);
inline constexpr absl::Duration kConnectLimit = absl::Seconds(5);  // of one attempt
inline constexpr absl::Duration kReleaseWait = absl::Seconds(2);   // a flushed host's exit

// Effects.
struct SendToCoordinator { v1::AgentStatus status; };
struct SendToHost { v1::HostDirective directive; };
struct Connect {};       // open a session; answer: OnConnected or OnDisconnected
struct Disconnect {};    // close the session in order; no answer
// The host is dead or deaf: SIGKILL it if it lives, wait for its end, end everything it started (by session and by
// the marker in the environment). Answer: OnHostSwept.
struct EndHost { std::vector<v1::Worker> workers; bool kill_first = false; };
// Look whether a place's former holder lives: its pid, or anything that bears its marker. Answer: OnProbed.
struct Probe { v1::Predecessor predecessor; };
struct ExitAgent { int exit_code = 0; std::string reason; };
using Effect = std::variant<SendToCoordinator, SendToHost, Connect, Disconnect, EndHost, Probe, ExitAgent, Note>;
using Effects = std::vector<Effect>;

class AgentCore {
 public:
  // entropy: for the jitter of reconnects.
  explicit AgentCore(uint64_t entropy) : entropy_(entropy) {}

  // The first status brings the configuration and the memory of the agent before this one.
  void OnHostStatus(BootTime now, const v1::HostStatus& status, Effects* out);
  // The link to the host closed, or its pidfd fired.
  void OnHostClosed(BootTime now, Effects* out);
  void OnHostSwept(BootTime now, Effects* out);

  void OnConnected(BootTime now, const std::string& local_address, Effects* out);
  void OnDirective(BootTime now, const v1::Directive& directive, Effects* out);
  // why: for people. refused: an exit code (77) if the coordinator turned the session away for good, else 0.
  void OnDisconnected(BootTime now, const std::string& why, Effects* out);
  void OnProbed(BootTime now, const std::string& host_id, bool dead, Effects* out);

  void OnTick(BootTime now, Effects* out);

  bool configured() const { return configured_; }
  const v1::NodeConfig& config() const { return config_; }
  const v1::Memory& memory() const { return memory_; }
  bool finished() const { return finished_; }

 private:
  enum class Link { kDown, kConnecting, kUp };
  struct SentStatus {
    uint64_t seq;
    BootTime at;
  };

  void Adopt(BootTime now, const v1::HostStatus& status, Effects* out);
  void ApplyOrder(BootTime now, const v1::Directive& directive, Effects* out);
  void TellRound(BootTime now, const v1::Round& round);
  void ExtendLease(const v1::Directive& directive);
  void Wait(BootTime now, const v1::Wait& wait, Effects* out);
  void ExitWith(BootTime now, int code, const std::string& origin, const std::string& reason, Effects* out);

  void TellHost(Effects* out);
  void TellCoordinator(BootTime now, Effects* out);
  v1::AgentStatus MakeStatus(BootTime now);
  v1::Phase CurrentPhase() const;
  v1::Outcome CurrentOutcome() const;

  void WatchHost(BootTime now, absl::Duration counted, Effects* out);
  void WatchCoordinator(BootTime now, Effects* out);
  void Narrate(BootTime now, Effects* out);
  absl::Duration ReconnectDelay();
  absl::Duration Beat() const;
  void Say(Severity severity, std::string text, Effects* out) const;

  uint64_t entropy_;
  bool configured_ = false;
  bool finished_ = false;
  v1::NodeConfig config_;
  v1::HostStatus host_;  // newest
  v1::Memory memory_;

  // Towards the host.
  uint64_t host_directive_seq_ = 0;
  v1::HostDirective order_;  // what the host was last told
  BootTime lease_deadline_ = absl::InfinitePast();
  absl::Duration silence_;
  BootTime last_tick_ = absl::InfinitePast();
  bool ending_host_ = false;
  bool host_gone_ = false;

  // Towards the coordinator.
  Link link_ = Link::kDown;
  uint64_t status_seq_ = 0;
  std::deque<SentStatus> sent_;
  std::optional<v1::Directive> newest_;
  std::string local_address_;
  BootTime born_ = absl::InfinitePast();
  BootTime last_contact_ = absl::InfinitePast();
  BootTime connect_at_ = absl::InfinitePast();
  BootTime connect_began_ = absl::InfinitePast();
  BootTime last_sent_at_ = absl::InfinitePast();
  int attempts_ = 0;
  bool ever_connected_ = false;
  std::string last_disconnect_;
  std::string probing_;
  std::string predecessor_dead_;
  std::string last_told_;  // digest of the last status, to send changes at once

  // Waiting, told at change and then ever more rarely.
  std::string waiting_for_;
  BootTime waiting_since_ = absl::InfinitePast();
  BootTime next_narration_ = absl::InfiniteFuture();
  bool exiting_ = false;
  BootTime exit_deadline_ = absl::InfiniteFuture();
  BootTime gone_deadline_ = absl::InfiniteFuture();
};

}  // namespace muster::agent
