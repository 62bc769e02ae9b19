// This node's lease: until when its workers may run without an answer of the coordinator. Other nodes may replace
// the workers once it has ended, so they are stopped before: SIGTERM at TermMoment(), SIGKILL at KillMoment(). At
// the end itself the kernel kills the host, and the workers with it.
//
// The end only moves forward. Pure.
#pragma once

#include <optional>
#include <string>

#include "agent/host/core/effects.h"
#include "base/core/time.h"
#include "muster/v1/host.pb.h"

namespace muster::host {

class Lease {
 public:
  // length: until the coordinator has set another; zero: a job of one node, which has no lease. grace: between the
  // workers' SIGTERM and SIGKILL.
  Lease(absl::Duration length, absl::Duration grace) : length_(length), grace_(grace) {}

  bool exists() const { return length_ > absl::ZeroDuration(); }
  absl::Duration length() const { return length_; }
  BootTime deadline() const { return deadline_; }  // infinite past: none was granted yet

  // Takes the length and the end of the lease from a directive; an earlier end than the present one is ignored.
  void Extend(const v1::HostDirective& directive);

  // SIGTERM is sent early enough for the whole grace period before SIGKILL, but not before two thirds of the
  // lease.
  BootTime TermMoment() const;
  BootTime KillMoment() const { return deadline_ - length_ / 10; }
  // Whether it is too late to start workers, and time to stop those that run.
  bool IsEnding(BootTime now) const { return exists() && now >= TermMoment(); }

  // awaits_members: the lease depends on the answers of other nodes, because this node serves the coordinator.
  std::string WhyItEnds(BootTime now, bool awaits_members) const;

  // Sets the kernel's timer to the end of the lease, or disarms it. guards: there are workers that can be ended.
  // Otherwise killing the host would end nothing, and its report of the job's end would be lost.
  void UpdateKernelTimer(bool guards, Effects* out);

 private:
  absl::Duration length_;
  const absl::Duration grace_;
  BootTime deadline_ = absl::InfinitePast();
  // What the kernel was asked for last; nullopt: nothing. Only changes are asked for.
  std::optional<BootTime> kernel_timer_;
};

}  // namespace muster::host
