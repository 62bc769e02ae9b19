#include "cli/status/events_text.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/text/text.h"
#include "rendezvous/web/event_json.h"

namespace muster::cli {
namespace {

// Where that and the rank are known, the text has them, too.
std::string EventLine(const v1::Event& event, absl::Time now, absl::TimeZone zone) {
  const std::string at = absl::FormatTime("%Y-%m-%d %H:%M:%E3S", rendezvous::TimeOf(event, now), zone);
  return absl::StrFormat("%s  %s %-16s  %s\n", at, event.is_bad() ? "!" : " ", OneLine(event.name()),
                         OneLine(event.text()));
}

}  // namespace

std::string EventsText(const v1::Events& events, absl::Time now, absl::TimeZone zone) {
  std::string out;
  for (const v1::Event& event : events.newest()) out += EventLine(event, now, zone);
  return out;
}

// After a takeover older events may come behind newer ones, once a node has told the new coordinator of them.
void ShownEvents::KeepNew(v1::Events* events) {
  if (shown_.size() > kMaxShownRemembered)
    shown_.erase(shown_.begin(), std::next(shown_.begin(), kMaxShownRemembered / 2));
  const auto was_shown = [this](const v1::Event& event) {
    return !shown_.emplace(event.epoch().number(), event.epoch().random(), event.number()).second;
  };
  auto* const newest = events->mutable_newest();
  newest->erase(std::remove_if(newest->begin(), newest->end(), was_shown), newest->end());
}

}  // namespace muster::cli
