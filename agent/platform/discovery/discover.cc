#include "agent/platform/discovery/discover.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "agent/platform/discovery/address.h"
#include "base/core/status_macros.h"
#include "base/text/problem.h"
#include "base/wire/loopback.h"

namespace muster::discovery {
namespace {

struct Found {
  const Source* source;
  ClusterView view;
};

bool Implies(const Source& richer, const Source& implied) {
  const auto& names = richer.implies;
  return implied.yields_to_all || std::find(names.begin(), names.end(), implied.name) != names.end();
}

using SourceList = std::vector<const Source*>;

bool IsImplied(const SourceList& fitting, const Source& source) {
  return std::any_of(fitting.begin(), fitting.end(), [&](const Source* other) { return Implies(*other, source); });
}

std::string FirstLabel(const std::string& host) { return absl::AsciiStrToLower(host.substr(0, host.find('.'))); }

// A machine has many names, and text alone does not show which name has which address: only two names, or two
// addresses, can be compared. The primary may call itself by a loopback address.
bool MayBeOne(const std::string& a, const std::string& b) {
  if (a.empty() || b.empty() || a == b || IsLoopback(a) || IsLoopback(b)) return true;
  if (IsLiteral(a) || IsLiteral(b)) return IsLiteral(a) != IsLiteral(b);
  return FirstLabel(a) == FirstLabel(b);
}

bool SamePlace(const ClusterView& a, const ClusterView& b) {
  const bool same_rank = a.node_rank < 0 || b.node_rank < 0 || a.node_rank == b.node_rank;
  return same_rank && a.role == b.role && a.nnodes == b.nnodes;
}

bool Agree(const ClusterView& first, const ClusterView& later) {
  return SamePlace(first, later) && MayBeOne(first.primary_host, later.primary_host);
}

std::string DescribeFound(const Found& found, bool with_primary) {
  const ClusterView& view = found.view;
  const bool trains = view.role == NodeRole::kTrainer;
  const std::string place = view.node_rank >= 0 ? absl::StrCat("rank ", view.node_rank)
                            : trains            ? "no rank"
                                                : "no trainer";
  return absl::StrFormat("%s (%s) says %s of %d%s", found.source->name, found.source->evidence, place, view.nnodes,
                         with_primary ? absl::StrCat(" with primary ", Shown(view.primary_host)) : "");
}

absl::Status Disagreement(const Found& a, const Found& b) {
  const bool by_primary = SamePlace(a.view, b.view);
  return absl::InvalidArgumentError(absl::StrFormat(
      "two sources fit this node and disagree: %s, %s; give --source %s or --source %s, the same on all nodes",
      DescribeFound(a, by_primary), DescribeFound(b, by_primary), a.source->name, b.source->name));
}

// Adds to the error of a source that another source fits.
absl::Status Beside(const Found& found, const absl::Status& status) {
  return {status.code(), absl::StrCat(status.message(), "; or give --source ", found.source->name, ", which (",
                                      found.source->evidence, ") fits too")};
}

ClusterView SingleNode() {
  ClusterView view;
  view.source = kSingleNode;
  view.node_rank = 0;
  view.loopback_only = true;
  return view;
}

absl::StatusOr<ClusterView> ReadOne(const Source& source, const Evidence& evidence,
                                    const DiscoverOptions& options) {
  ASSIGN_OR_RETURN(std::optional<ClusterView> reading, source.Read(evidence, options));
  if (reading.has_value()) return *std::move(reading);
  return absl::InvalidArgumentError(
      absl::StrFormat("--source %s: %s was not found on this node", source.name, source.evidence));
}

// The view of the first source. If it names no primary, that of the next one that does.
ClusterView Merged(std::vector<Found> all) {
  ClusterView view = std::move(all.front().view);
  for (size_t i = 1; i < all.size() && view.primary_host.empty(); ++i) {
    if (all[i].view.nnodes != view.nnodes) continue;
    view.primary_host = all[i].view.primary_host;
    view.primary_port = all[i].view.primary_port;
    view.loopback_only = all[i].view.loopback_only;
  }
  return view;
}

}  // namespace

absl::StatusOr<ClusterView> Discover(const Evidence& evidence, const DiscoverOptions& options) {
  std::vector<Found> found;
  SourceList fitting;  // also those that do not count for torchrun
  for (const Source& source : Sources()) {
    if (options.source == source.name) return ReadOne(source, evidence, options);
    if (!options.source.empty() || IsImplied(fitting, source)) continue;
    Reading reading = source.Read(evidence, options);
    const bool counts = !options.as_torchrun || source.traits.counts_for_torchrun;
    if (!reading.ok() || reading->has_value()) fitting.push_back(&source);
    if (!counts) continue;
    if (!reading.ok()) return found.empty() ? reading.status() : Beside(found.front(), reading.status());
    if (!reading->has_value()) continue;
    const Found later{&source, **std::move(reading)};
    for (const Found& earlier : found) {
      if (!Agree(earlier.view, later.view)) return Disagreement(earlier, later);
    }
    found.push_back(later);
  }
  if (!options.source.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--source ", Shown(options.source), ": expected one of ", SourceNames()));
  }
  if (found.empty()) return SingleNode();
  return Merged(std::move(found));
}

std::vector<std::string> SourcesHere(const Evidence& evidence, const DiscoverOptions& options) {
  std::vector<std::string> names;
  for (const Source& source : Sources()) {
    if (source.traits.is_host_list && options.hostfile.path.empty()) continue;  // it may just be part of the image
    const Reading reading = source.Read(evidence, options);
    if (!reading.ok() || reading->has_value()) names.emplace_back(source.name);
  }
  return names;
}

}  // namespace muster::discovery
