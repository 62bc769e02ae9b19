#include "base/text/duration.h"

#include <charconv>
#include <cmath>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/core/status_macros.h"

namespace muster {
namespace {

absl::Status Bad(std::string_view text, std::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat("'", AsAbsl(text), "' is not a duration (", AsAbsl(why),
                                                 "): write seconds, or 500ms, 20s, 5m, 1h"));
}

}  // namespace

absl::StatusOr<absl::Duration> ParseDuration(std::string_view text) {
  double number = 0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, number, std::chars_format::fixed);
  if (error != std::errc() || !std::isfinite(number)) return Bad(text, "no number");
  if (std::signbit(number)) return Bad(text, "negative");
  const std::string_view unit(rest, static_cast<size_t>(end - rest));
  absl::Duration one;
  if (unit.empty() || unit == "s") {
    one = absl::Seconds(1);
  } else if (unit == "ms") {
    one = absl::Milliseconds(1);
  } else if (unit == "m") {
    one = absl::Minutes(1);
  } else if (unit == "h") {
    one = absl::Hours(1);
  } else {
    return Bad(text, absl::StrCat("unknown unit '", AsAbsl(unit), "'"));
  }
  const absl::Duration result = number * one;
  if (result > absl::Hours(24) * kMaxDurationDays) return Bad(text, "over ten years");
  return result;
}

std::string FormatDuration(absl::Duration d) { return absl::FormatDuration(d); }

}  // namespace muster
