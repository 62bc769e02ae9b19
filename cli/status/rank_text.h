// How one worker of a job is shown. Pure.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "muster/v1/control.pb.h"

namespace muster::cli {

// "5". InvalidArgument: it is no rank.
absl::StatusOr<int> ParseRank(const std::string& text);

// A view with a rank. 0: it lives, and its node has answered; kExitAttention: not (status_text.h).
int CodeOfRank(const v1::JobView& view);
std::string RankText(const v1::JobView& view);
std::string RankJson(const v1::JobView& view);

}  // namespace muster::cli
