// The agent's session to the coordinator: whether it is up, how long nothing was heard, and when to try again.
//
// Connections are the main cost for a coordinator that takes over a very large job, and thousands at once would
// time out and start again. So every agent has a turn of its own: members in the order of their ranks, before the
// lease ends, then spares in the order of their line.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "base/core/time.h"
#include "muster/v1/rendezvous.pb.h"

namespace muster::agent {

inline constexpr absl::Duration kMinReconnectDelay = absl::Milliseconds(50);
inline constexpr absl::Duration kMaxReconnectDelay = absl::Milliseconds(500);
// Delays between attempts while another job's coordinator answers.
inline constexpr absl::Duration kRefusedRetry = absl::Seconds(1);
inline constexpr absl::Duration kMaxRefusedRetry = absl::Seconds(8);
// A refusal of a connection can come from anybody who answers at the port: from the coordinator of an earlier job
// that is ending still, or from a stranger who has taken the port for a moment. Less, a quarter of --join-timeout,
// if that is short.
inline constexpr absl::Duration kRefusalPatience = absl::Seconds(5);
inline constexpr absl::Duration kRefusalGap = absl::Seconds(15);  // further apart they do not go on
// Between the first attempts of two agents after the coordinator was lost.
inline constexpr absl::Duration kFirstReconnectSpacing = absl::Microseconds(100);
inline constexpr absl::Duration kMaxReconnectTurn = absl::Seconds(30);  // in which all agents try once

// What decides how soon this node tries again.
struct NodeTurn {
  const v1::Round* last = nullptr;  // the newest round that this node knows; with its node rank if it is a member
  int place_in_line = 0;            // among the spares; 0: not a spare
  absl::Duration lease = absl::ZeroDuration();            // zero: none
  BootTime lease_deadline = absl::InfinitePast();         // until then its workers may run
  absl::Duration give_up_after = absl::ZeroDuration();    // without a coordinator
  absl::Duration reconnect_grace = absl::ZeroDuration();  // from a closed stream to a drain
};

class ReconnectDelays {
 public:
  explicit ReconnectDelays(uint64_t entropy) : entropy_(entropy) {}

  void NoteAttempt() { ++attempts_; }
  void NoteAnswer() { attempts_ = 0, after_refusal_ = absl::ZeroDuration(); }  // only a directive is an answer
  void NoteNotRefused() { after_refusal_ = absl::ZeroDuration(); }

  // Short at first, because a coordinator's successor is there within moments, then longer, with jitter of a
  // third. In very large jobs the first attempts are spread over half the reconnect grace, which costs no round,
  // and further attempts over the time that it takes to admit all agents.
  absl::Duration Next(const NodeTurn& node);
  // After a refusal by another job's coordinator. While its lease lasts a node tries often, because its own
  // coordinator may be back in time for its workers. After that a few seconds do not matter and the other job
  // should not be disturbed: the delay doubles, up to a limit that still leaves several attempts before the node
  // gives up. Thousands of nodes take turns at any time.
  absl::Duration AfterRefusal(BootTime now, const NodeTurn& node);

 private:
  struct Turn {
    absl::Duration after;   // from the moment when all agents may begin
    absl::Duration period;  // in which every agent has one turn
  };
  Turn TurnOf(const NodeTurn& node, absl::Duration spacing, absl::Duration limit);
  absl::Duration InTurn(const NodeTurn& node, absl::Duration delay, absl::Duration free);
  double Fraction();
  absl::Duration WithJitter(absl::Duration delay);

  uint64_t entropy_;
  int attempts_ = 0;                                     // since the last directive
  absl::Duration after_refusal_ = absl::ZeroDuration();  // before the newest attempt after a refusal
};

// The connection to the coordinator: down, being tried, or up, and since when. Decides nothing; AgentCore asks it.
class CoordinatorLink {
 public:
  void Begin(BootTime now, bool was_in_job);
  void Connecting(BootTime now);
  void Up(BootTime now);
  void Down(std::string why, BootTime retry_at);
  void Heard(BootTime now);  // a directive
  // The newest attempt, whose end Down() has recorded, was refused. Returns whether refusals begin with this one.
  bool NoteRefused(BootTime now);
  // Running time of this process, so that a process that was stopped itself does not give up.
  void CountSilence(absl::Duration counted) { unheard_ += counted; }

  bool up() const { return state_ == State::kUp; }
  bool IsDue(BootTime now) const { return state_ == State::kDown && now >= connect_at_; }
  bool HasHungSince(BootTime now, absl::Duration limit) const {
    return state_ == State::kConnecting && now > connect_began_ + limit;
  }
  // On an open stream.
  bool IsSilent(BootTime now, absl::Duration limit) const;
  // How long the present connection took to come about.
  absl::Duration setup_time() const { return connected_at_ - connect_began_; }
  bool ever_up() const { return ever_up_; }  // by this agent or an earlier one of this node
  absl::Duration unheard() const { return unheard_; }
  BootTime last_contact() const { return last_contact_; }
  BootTime refused_since() const { return refused_since_; }  // the first of those that go on
  bool is_refused() const { return is_refused_; }            // the newest attempt was
  const std::string& why_down() const { return why_down_; }  // empty: it never was up, or nothing is known
  // Once for each connection after the first: its first directive has come.
  bool TakeReturn() { return std::exchange(came_back_, false); }

 private:
  enum class State { kDown, kConnecting, kUp };

  State state_ = State::kDown;
  BootTime connect_at_ = absl::InfiniteFuture();
  BootTime connect_began_ = absl::InfinitePast();
  BootTime connected_at_ = absl::InfinitePast();
  BootTime last_contact_ = absl::InfinitePast();   // when the last directive arrived
  absl::Duration unheard_ = absl::ZeroDuration();  // since the last directive
  BootTime refused_since_ = absl::InfiniteFuture();
  BootTime last_refused_ = absl::InfinitePast();
  bool is_refused_ = false;
  bool ever_up_ = false;
  bool came_back_ = false;  // connected again, and no directive has arrived yet on this connection
  std::string why_down_;
};

}  // namespace muster::agent
