// How long a coordinator tries to listen on a port that another process has, and what it says of that process.
// Lives on the loop thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "agent/port_holder.h"
#include "proto/base/time.h"

namespace muster::agent {

inline constexpr absl::Duration kBindRetryLimit =
    absl::Seconds(10);  // a predecessor's port may be free in a moment
inline constexpr absl::Duration kForeignPortLimit = absl::Seconds(3);   // that of another program hardly
inline constexpr absl::Duration kHolderSearchPause = absl::Seconds(1);  // between two searches for the holder

class PortRetry {
 public:
  struct Next {
    std::string why;  // for people: the error, who has the port, and what to do
    bool give_up = false;
  };

  // status: why listening failed. Blocks for a search of the holder, at most once in kHolderSearchPause.
  Next OnFailure(BootTime now, const absl::Status& status, uint16_t port);

  // The same where another process has the port of the coordinator that would be here, and this node looks for the
  // coordinator behind it: what has the port may forward. why: how that failed; no_coordinator: something answered
  // that is none.
  Next OnNoCoordinator(BootTime now, const std::string& why, bool no_coordinator, uint16_t port);

 private:
  void Search(BootTime now, uint16_t port);

  std::optional<BootTime> failing_since_;
  BootTime searched_at_ = absl::InfinitePast();
  std::optional<PortHolder> holder_;
};

}  // namespace muster::agent
