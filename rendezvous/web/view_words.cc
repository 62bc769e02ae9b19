#include "rendezvous/web/view_words.h"

#include "absl/strings/ascii.h"

namespace muster::rendezvous {

bool IsWell(const v1::JobView& view) {
  const bool runs = view.state() == v1::JobView::STATE_RUNNING && view.odd().empty();
  const bool has_succeeded = view.state() == v1::JobView::STATE_ENDING && view.exit_code() == 0;
  return runs || has_succeeded;
}

const char* PhaseOf(v1::Phase phase) {
  switch (phase) {
    case v1::PHASE_READY:
      return "ready";
    case v1::PHASE_STARTING:
      return "starting";
    case v1::PHASE_RUNNING:
      return "running";
    case v1::PHASE_STOPPING:
      return "stopping";
    case v1::PHASE_SUCCEEDED:
      return "succeeded";
    case v1::PHASE_FAILED:
      return "failed";
    case v1::PHASE_UNUSABLE:
      return "unusable";
    case v1::PHASE_LEAVING:
      return "leaving";
    case v1::PHASE_HOST_GONE:
      return "gone";
    default:
      return "unknown";
  }
}

std::string KeyOf(const std::string& name, std::string_view prefix) {
  return name.empty() ? "unknown" : absl::AsciiStrToLower(name.substr(prefix.size()));
}

std::string Rfc3339(absl::Time time) {
  return absl::FormatTime("%Y-%m-%d%ET%H:%M:%E3SZ", time, absl::UTCTimeZone());
}

}  // namespace muster::rendezvous
