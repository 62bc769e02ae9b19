#include "cli/options/settings.h"

#include "absl/strings/str_cat.h"
#include "base/text/problem.h"

namespace muster::cli {

std::string NodeRankIsIgnored(const Setting<int>& node_rank) {
  return absl::StrCat(ShownWithValue(node_rank.source, node_rank.text), ": has no effect in a job of one node");
}

int LeastNodes(const MembershipSettings& s) {
  if (!s.nnodes) return 1;
  return s.as_torchrun ? s.nnodes->value.min : s.nnodes->value.max;
}

std::string ShownWithValue(const std::string& source, const std::string& text) {
  const bool bare = !text.empty() && text.find(' ') == std::string::npos;
  return absl::StrCat(source, bare ? " " : " '", Shown(text), bare ? "" : "'");
}

absl::Status Fault(Origin origin, const std::string& source, const std::optional<std::string>& text,
                   const std::string& reason) {
  const std::string line = absl::StrCat(text ? ShownWithValue(source, *text) : source, ": ", reason);
  return origin == Origin::kFlag ? absl::InvalidArgumentError(line) : absl::FailedPreconditionError(line);
}

}  // namespace muster::cli
