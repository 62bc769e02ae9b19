#include "base/core/waiting_line.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace muster {
namespace {

constexpr absl::Duration kFirstLine = absl::Seconds(1);       // a shorter wait is not reported
constexpr absl::Duration kChangeInterval = absl::Seconds(5);  // a changed reason is reported no earlier
constexpr absl::Duration kSchedule[] = {absl::Seconds(5), absl::Seconds(10), absl::Seconds(30), absl::Seconds(60)};
constexpr absl::Duration kThenEvery = absl::Minutes(1);

}  // namespace

std::optional<std::string> WaitingLine::Set(BootTime now, std::string what, bool lasts) {
  lasts_ = lasts;
  if (what == what_) return std::nullopt;
  const bool began = what_.empty();
  what_ = std::move(what);
  if (what_.empty()) {
    next_ = absl::InfiniteFuture();
    return std::nullopt;
  }
  if (began) {
    since_ = now;
    next_ = now + kFirstLine;
  } else {
    next_ = std::min(next_, std::max(now, since_ + kChangeInterval));
  }
  return OnTick(now);
}

std::optional<std::string> WaitingLine::OnTick(BootTime now) {
  if (now < next_ || what_.empty()) return std::nullopt;
  if (!lines_.Take(now)) {
    next_ = now + kChangeInterval;
    return std::nullopt;
  }
  const absl::Duration waited = now - since_;
  if (lasts_) {
    next_ = absl::InfiniteFuture();
    return absl::StrCat("waiting: ", what_);
  }
  next_ = now + kThenEvery;
  for (const absl::Duration at : kSchedule) {
    if (waited >= at) continue;
    next_ = since_ + at;
    break;
  }
  const std::string how_long = absl::FormatDuration(absl::Trunc(waited, absl::Seconds(1)));
  return absl::StrCat("still waiting after ", how_long, ": ", what_);
}

}  // namespace muster
