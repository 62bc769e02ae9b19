// A new platform is one row of kPlatforms and one file beside this one.
#include "agent/discovery/discover.h"

#include <algorithm>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "agent/discovery/problem.h"
#include "proto/base/status_macros.h"

namespace muster::discovery {
namespace {

// What a platform says in short: enough to see that two of them contradict each other.
struct Claim {
  int node_rank = -1;  // -1: it names none
  int nnodes = 1;
};

struct Platform {
  const char* name;                                             // for people and options.platform
  const char* variables;                                        // what to unset to be rid of it
  Reading (*read)(const Environment&, const DiscoverOptions&);  // nullptr: seen, not read yet
  std::optional<Claim> (*claim)(const Environment&);            // for those that are not read
};

std::optional<int> NumberIn(const Environment& environment, const char* variable) {
  const auto found = environment.find(variable);
  int number = 0;
  if (found == environment.end() || !absl::SimpleAtoi(found->second, &number)) return std::nullopt;
  return number;
}

// A Slurm step of several nodes. Not one of a single node: that is a shell in somebody's allocation, in which a
// job with a spec of its own may well be tried out. Nor an allocation without a step, which says nothing of this
// process.
std::optional<Claim> SlurmStepClaim(const Environment& environment) {
  const std::optional<int> nnodes = NumberIn(environment, "SLURM_STEP_NUM_NODES");
  if (nnodes.value_or(1) <= 1) return std::nullopt;
  return Claim{NumberIn(environment, "SLURM_NODEID").value_or(-1), *nnodes};
}

constexpr Platform kPlatforms[] = {
    {"vertex", "CLUSTER_SPEC",
     [](const Environment& environment, const DiscoverOptions& options) {
       return ReadVertex(environment, options.vertex);
     },
     nullptr},
    {"slurm", "SLURM_STEP_NUM_NODES", nullptr, SlurmStepClaim},
};

struct Found {
  const Platform* platform;
  Claim claim;
};

std::string ToString(const Found& found) {
  const std::string place = found.claim.node_rank < 0 ? "no rank" : absl::StrCat("rank ", found.claim.node_rank);
  return absl::StrFormat("%s (%s) says %s of %d", found.platform->name, found.platform->variables, place,
                         found.claim.nnodes);
}

bool Agree(const Claim& a, const Claim& b) {
  const bool same_rank = a.node_rank < 0 || b.node_rank < 0 || a.node_rank == b.node_rank;
  return same_rank && a.nnodes == b.nnodes;
}

absl::Status Disagreement(const Found& a, const Found& b) {
  return absl::InvalidArgumentError(absl::StrFormat(
      "two environments fit this node and disagree: %s, %s; unset %s or %s, the same one on all nodes",
      ToString(a), ToString(b), a.platform->variables, b.platform->variables));
}

ClusterView SingleNode() {
  ClusterView view;
  view.source = "single";
  view.node_rank = 0;
  view.loopback_only = true;
  return view;
}

absl::Status CheckPlatformName(const std::string& name) {
  std::string known;
  for (const Platform& platform : kPlatforms) {
    if (platform.read == nullptr) continue;
    if (name == platform.name) return absl::OkStatus();
    absl::StrAppend(&known, known.empty() ? "" : ", ", platform.name);
  }
  return absl::InvalidArgumentError(
      absl::StrCat("the platform ", Shown(name), " is not one that is read: expected one of ", known));
}

// Seen but not read, and nothing else fits: every node of it would otherwise train alone without a word.
std::string UnreadWarning(const Found& found) {
  return absl::StrCat(ToString(found), " nodes, but is not read yet: this is a job of one node unless --nnodes, ",
                      "--node-rank and --master-addr are given");
}

}  // namespace

absl::StatusOr<ClusterView> Discover(const Environment& environment, const DiscoverOptions& options) {
  if (!options.platform.empty()) RETURN_IF_ERROR(CheckPlatformName(options.platform));
  std::optional<ClusterView> view;
  std::vector<Found> all;
  for (const Platform& platform : kPlatforms) {
    if (!options.platform.empty() && options.platform != platform.name) continue;
    if (platform.read == nullptr) {
      if (const std::optional<Claim> claim = platform.claim(environment)) all.push_back({&platform, *claim});
      continue;
    }
    ASSIGN_OR_RETURN(std::optional<ClusterView> reading, platform.read(environment, options));
    if (!reading.has_value()) continue;
    all.push_back({&platform, {reading->node_rank, reading->nnodes}});
    if (!view.has_value()) view = std::move(reading);
  }
  for (const Found& other : all) {
    if (!Agree(all.front().claim, other.claim)) return Disagreement(all.front(), other);
  }
  if (view.has_value()) return *view;
  if (!options.platform.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("the platform ", options.platform, " was asked for, but its environment is not here"));
  }
  ClusterView single = SingleNode();
  for (const Found& unread : all) single.warnings.push_back(UnreadWarning(unread));
  return single;
}

}  // namespace muster::discovery
