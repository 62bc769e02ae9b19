// Between rounds: whether this node is fit for the next round. Its setup must have succeeded once, its GPUs must
// be free of the last round's workers, and its preflight must pass; without any of them it is fit at once. A node
// that is not fit tries again, after a pause that doubles. Until it is fit it offers no master port, so the
// coordinator puts it in no round.
//
// A check, the setup or the preflight, is a command. It is over when OnSwept reports that no process of it is
// left. Its result is evaluated after its last output has been read. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "agent/host/core/effects.h"
#include "agent/host/core/ending.h"
#include "agent/host/core/gpu_release.h"
#include "agent/host/core/host_options.h"
#include "base/core/time.h"
#include "muster/v1/host.pb.h"

namespace muster::host {

inline constexpr absl::Duration kOfferRetry = absl::Seconds(5);   // after no master port could be reserved
inline constexpr absl::Duration kUnfitRetry = absl::Seconds(10);  // doubles with each failed attempt
inline constexpr absl::Duration kMaxUnfitRetry = absl::Minutes(5);
inline constexpr size_t kMaxUnfitText = 320;  // bytes of the reason why this node is not fit

const char* NameOf(Check check);  // for people

// Whether the coordinator has ended the last round. Until then a node that has failed or succeeded only reports
// that: the job may be over, and then a preflight would be useless.
bool RoundIsClosed(const v1::Memory& memory, const v1::RoundId& started, v1::Outcome outcome);

class Fitness {
 public:
  // What the checks depend on.
  struct Job {
    bool wants_node = false;    // no round runs here, the job goes on, and the node stays in it
    bool round_closed = false;  // see RoundIsClosed
  };

  explicit Fitness(const HostOptions& options);

  bool fit() const { return state_ == State::kFit; }
  uint32_t offer_port() const { return offer_port_; }    // 0: none is reserved
  const std::string& why_unfit() const { return why_; }  // empty: the last attempt succeeded
  std::string Preparing() const;                         // what it waits for; empty: nothing

  // Events. Those that return true have changed what the node's status shows: send it.
  // Begins a check if one is due.
  [[nodiscard]] bool Prepare(BootTime now, const Job& job, Effects* out);
  [[nodiscard]] bool OnTick(BootTime now, const Job& job, Effects* out);
  [[nodiscard]] bool OnGpuUsers(BootTime now, const GpuUsers& users, Effects* out);
  // The check that StartCheck has started has ended.
  void OnCheckEnded(BootTime now, const Ending& ending, Effects* out);
  [[nodiscard]] bool OnCheckOutput(BootTime now, const std::string& last_line, bool wants_node, Effects* out);
  [[nodiscard]] bool OnSwept(BootTime now, const std::string& left, bool wants_node, Effects* out);

  void OnOffer(uint32_t port) { offer_port_ = port; }
  // Tries again to reserve a port: a node without an offer is in no round, and the other nodes may wait for it.
  void WatchOffer(BootTime now, Effects* out);

  void OnRoundOver();  // the offer was for that round, and the node must be checked again
  // For the end of the job, or of this node's part in it. True: nothing of the checks is alive, or can be killed.
  bool End(BootTime now, Effects* out);

 private:
  enum class State {
    kUnknown,  // not checked yet; the check waits until the coordinator has ended the last round
    kGpus,     // exited workers may still hold GPUs
    kCheck,    // the setup or the preflight runs
    kEnding,   // the processes that it left are being killed
    kFit,
    kUnfit,  // until the next attempt
  };
  std::optional<Check> FirstCheck() const;  // nullopt: there is none
  absl::Duration LimitOfCheck() const;
  bool BeginCheck(BootTime now, Check check, Effects* out);
  void EndCheck(BootTime now, Effects* out);
  bool ReportSurvivors(const std::string& left, Effects* out);
  bool JudgeCheck(BootTime now, Effects* out);
  std::string WhyCheckFailed() const;
  bool BecomeFit(BootTime now, Effects* out);
  bool BecomeUnfit(BootTime now, const std::string& why, Effects* out);

  const std::string hostname_;
  const absl::Duration setup_timeout_;      // zero: no setup
  const absl::Duration preflight_timeout_;  // zero: no preflight
  State state_ = State::kUnknown;
  bool is_set_up_ = false;           // the setup has succeeded
  Check check_ = Check::kPreflight;  // the latest that was started
  std::string why_;
  absl::Duration retry_pause_ = kUnfitRetry;
  BootTime retry_at_ = absl::InfiniteFuture();
  GpuRelease gpus_;
  BootTime check_since_ = absl::InfinitePast();
  BootTime ending_since_ = absl::InfinitePast();  // when SIGKILL was sent to what the check left
  std::optional<Ending> ending_;  // of the check; nullopt: stopped by its timeout, or because the node leaves
  std::string last_line_;
  uint32_t offer_port_ = 0;
  BootTime offer_asked_at_ = absl::InfinitePast();
};

}  // namespace muster::host
