#include "cli/commands/platform_defaults.h"

#include <algorithm>
#include <map>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "agent/platform/discovery/sources.h"
#include "base/core/status_macros.h"
#include "base/text/duration.h"
#include "cli/plan/run_plan.h"
#include "rendezvous/core/options.h"

namespace muster::cli {
namespace {

using discovery::Source;
using discovery::Traits;

std::string Graces() {
  std::map<absl::Duration, std::vector<std::string>> platforms = {{kContainerGrace, {}},
                                                                  {kKubernetesGrace, {"Kubernetes"}}};
  for (const Source& source : discovery::Sources()) {
    if (source.traits.termination_grace == absl::ZeroDuration()) continue;
    std::vector<std::string>& labels = platforms[source.traits.termination_grace];
    if (std::find(labels.begin(), labels.end(), source.traits.label) == labels.end())
      labels.emplace_back(source.traits.label);
  }
  std::vector<std::string> parts;
  for (const auto& [grace, labels] : platforms) {
    std::vector<std::string> where;
    if (!labels.empty()) where.push_back(absl::StrCat("on ", absl::StrJoin(labels, " and ")));
    if (grace == kContainerGrace) where.emplace_back("as a container's first process");
    parts.push_back(absl::StrCat(absl::ToInt64Seconds(grace), "s ", absl::StrJoin(where, " and ")));
  }
  return absl::StrJoin(parts, ", ");
}

std::string JoinTimeouts() {
  std::vector<std::string> parts = {muster::FormatDuration(kJoinTimeout)};
  for (const Source& source : discovery::Sources()) {
    const absl::Duration limit = source.traits.join_timeout;
    if (limit != absl::ZeroDuration())
      parts.push_back(absl::StrCat("on ", source.traits.label, " ", muster::FormatDuration(limit)));
  }
  return absl::StrJoin(parts, "; ");
}

std::string RetryCodes() {
  std::vector<std::string> parts;
  for (const Source& source : discovery::Sources()) {
    const discovery::RetryCode& retry = source.traits.retry;
    if (retry.code == 0) continue;
    std::string part = absl::StrCat(retry.code, retry.only_in_pod ? " in " : " on ", source.traits.label);
    if (std::find(parts.begin(), parts.end(), part) == parts.end()) parts.push_back(std::move(part));
  }
  return absl::StrJoin(parts, ", ");
}

}  // namespace

std::string WithPlatformDefaults(std::string_view help) {
  const auto no_replacement = discovery::LabelsOf([](const Traits& traits) { return traits.replaces_no_node; });
  const auto split = discovery::LabelsOf([](const Traits& traits) { return traits.stderr_means_error; });
  return absl::StrReplaceAll(AsAbsl(help), {{"@GRACES@", Graces()},
                                            {"@JOIN_TIMEOUTS@", JoinTimeouts()},
                                            {"@BEATS@", absl::StrCat(kLeastBeatsPerLease)},
                                            {"@MAX_AGES@", absl::StrCat(kMaxFailureAges)},
                                            {"@RETRY_CODES@", RetryCodes()},
                                            {"@NO_REPLACEMENT@", absl::StrJoin(no_replacement, " or ")},
                                            {"@SPLIT@", absl::StrJoin(split, " or ")}});
}

}  // namespace muster::cli
