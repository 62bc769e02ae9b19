// With which code and reason this host exits, and how long it waits for its agent before it does. The first
// decision counts. Pure.
#pragma once

#include <optional>
#include <string>
#include <utility>

#include "agent/host/core/effects.h"
#include "base/core/time.h"
#include "muster/v1/host.pb.h"

namespace muster::host {

// Time limit for the agent to forward the host's last status to the coordinator: when the node leaves, and before
// the host exits.
// A second request to stop neither cuts this wait short nor begins it again: the coordinator would otherwise wait
// for the lease of this node, and the agent has nothing more to report.
inline constexpr absl::Duration kLeaveReportLimit = absl::Seconds(1);

// An end that muster decided, not a worker.
v1::Exit MusterExit(int code, const std::string& reason);

class HostExit {
 public:
  // retryable_exit_code: see HostOptions.
  HostExit(std::string host_id, int retryable_exit_code)
      : host_id_(std::move(host_id)), retryable_exit_code_(retryable_exit_code) {}

  bool decided() const { return exit_.has_value(); }
  bool flushed() const { return waits_since_.has_value(); }

  // True: it was the first decision.
  bool Decide(const v1::Exit& exit);

  // Nothing of any round is alive, so nothing more is reported. True: for the first time.
  bool Flush(BootTime now);
  // Whether it still waits for its agent. Call after Flush. agent_gone_at: when the link to the agent was closed;
  // nullopt: it is open, or was never lost.
  bool Lingers(BootTime now, std::optional<BootTime> agent_gone_at) const;

  // The last effect. leave: how the node was asked to leave the job; nullptr: it was not.
  Finish MakeFinish(const v1::Leave* leave, const v1::Round& last) const;

 private:
  v1::Exit AskForRetry(v1::Exit exit) const;
  bool EndsTheJob(const v1::Exit& exit) const;  // as far as it has a verdict
  LastCommand CommandAfter(const v1::Exit& exit) const;

  const std::string host_id_;
  const int retryable_exit_code_;  // 0: none
  std::optional<v1::Exit> exit_;
  std::optional<BootTime> waits_since_;  // set by the first Flush
};

}  // namespace muster::host
