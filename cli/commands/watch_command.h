// `muster status --watch`: looks at the job each two seconds until q or Ctrl-C.
#pragma once

#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "muster/v1/control.pb.h"

namespace muster::cli {

inline constexpr absl::Duration kLookEvery = absl::Seconds(2);

struct WatchAsks {
  // Each may block for some seconds; one at a time, on another thread than the first one.
  std::function<absl::StatusOr<v1::JobView>()> view;
  std::function<absl::StatusOr<v1::JobView>()> stacks;  // with them
  std::function<absl::StatusOr<v1::JobEnd>()> end;      // waits for the end of the job; empty: it cannot be told
};

// On a terminal; returns the exit code.
int WatchOnTerminal(const WatchAsks& asks);

// Elsewhere: looks so often, and prints what show() makes of each answer. Returns when nobody reads any more, or
// what show_end() returns of the end of the job.
int WatchAsText(const WatchAsks& asks, absl::Duration every,
                const std::function<std::string(const v1::JobView& view)>& show,
                const std::function<int(const v1::JobEnd& end)>& show_end);

}  // namespace muster::cli
