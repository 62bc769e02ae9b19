#include "rendezvous/core/refusals.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/text/tokens.h"
#include "rendezvous/core/options.h"

namespace muster::rendezvous {

void Refusals::NoteRefused(BootTime now, StreamId stream, const std::string& name, const std::string& reason,
                           Effects* out) {
  if (streams_.insert(stream).second)
    Note(now, name.empty() ? "a node without a name" : name, reason, &refused_, out);
}

void Refusals::NoteTurnedAway(BootTime now, const std::string& name, const std::string& reason, Effects* out) {
  Note(now, name, reason, &turned_away_, out);
}

void Refusals::Note(BootTime now, const std::string& name, const std::string& reason, Logged* logged,
                    Effects* out) {
  const std::string whom = absl::StrCat(name, " (", reason, ")");
  if (reason != kFirstTokenRefused) Name(whom);
  // Begins anew now and then, so that strangers who were refused once do not hide the refusal of a node for ever.
  if (now >= logged->since + kRefusalsLoggedAgain) logged->whom.clear();
  if (logged->whom.empty()) logged->since = now;
  if (logged->whom.size() >= kMaxRefusalsLogged || !logged->whom.insert(whom).second) return;
  Say(Severity::kWarning, absl::StrCat("refused ", name, ": ", reason), out, {.event = events::kNodeRefused});
  if (logged->whom.size() == kMaxRefusalsLogged) {
    Say(Severity::kWarning,
        absl::StrCat(kMaxRefusalsLogged, " refusals of this kind were logged; further ones are logged from ",
                     absl::FormatDuration(logged->since + kRefusalsLoggedAgain - now), " on"),
        out);
  }
}

void Refusals::Name(const std::string& whom) {
  if (std::find(named_.begin(), named_.end(), whom) != named_.end()) return;
  if (named_.size() < kMaxRefusalsNamed) return named_.push_back(whom);
  more_ = true;
}

void Refusals::BeginRound() {
  named_.clear();
  more_ = false;
}

std::string Refusals::Describe() const {
  if (named_.empty()) return "";
  return absl::StrCat("; refused: ", absl::StrJoin(named_, ", "), more_ ? " and others" : "");
}

}  // namespace muster::rendezvous
