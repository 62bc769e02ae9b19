// How it is shown where the workers of a job stand. Pure.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "muster/v1/control.pb.h"
#include "nlohmann/json_fwd.hpp"

namespace muster::cli {

using RankPair = std::pair<int, int>;  // first and last

// "3" or "0-7,12". InvalidArgument: it is not of that form.
absl::StatusOr<std::vector<RankPair>> ParseRankRanges(std::string_view text);

// Leaves out places where none of these ranks stands. ranks: empty: all stay.
void KeepPlacesOf(const std::vector<RankPair>& ranks, v1::Stacks* stacks);

// The frames of its main thread, a line each; empty: they are not known.
std::string FramesText(const v1::RankSnapshot& rank);
nlohmann::ordered_json ProcessObject(const v1::RankSnapshot& rank);

// A view with stacks. 0: every node has answered, and some place is shown; kExitAttention: not (status_text.h).
int CodeOfStacks(const v1::JobView& view);
std::string StacksText(const v1::JobView& view);
std::string StacksJson(const v1::JobView& view);

}  // namespace muster::cli
