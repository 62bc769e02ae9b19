#include "cli/options/option_readers.h"

#include <cmath>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "agent/platform/discovery/sources.h"
#include "base/wire/ranges.h"
#include "base/wire/sidecar.h"

namespace muster::cli {

ValueReader LikeTorchrun(const ValueReader& boolean) {
  const auto read = boolean.read;
  return {[read](std::string_view option, const Setting<std::string>& given, Settings* settings) -> absl::Status {
    int number = 0;
    if (given.origin == Origin::kTorchrunVariable && !absl::SimpleAtoi(given.text, &number)) {
      return absl::InvalidArgumentError("expected 1 or 0");
    }
    return read(option, given, settings);
  }};
}

std::string FromTo(Bounds<int> bounds) { return absl::StrCat("From ", ShowBounds(bounds), "."); }

std::string FromTo(Bounds<absl::Duration> bounds) {
  if (bounds.most < kTimes.most) return absl::StrCat("From ", ShowBounds(bounds), ".");
  if (bounds.least > kTimes.least) return absl::StrCat("At least ", muster::FormatDuration(bounds.least), ".");
  return "";
}

absl::StatusOr<std::string> Text(const std::string& text) {
  if (text.empty()) return absl::InvalidArgumentError("expected a value");
  return text;
}

absl::StatusOr<std::string> ParseRole(const std::string& text) {
  if (text.empty() || text.size() > kMaxShortText) {
    return absl::InvalidArgumentError(absl::StrCat("expected a name of at most ", kMaxShortText, " bytes"));
  }
  return text;
}

absl::StatusOr<std::string> ParseSocketPath(const std::string& text) {
  if (text.empty() || text.size() > kMaxSocketPath) {
    return absl::InvalidArgumentError(
        absl::StrCat("expected the path of a socket, at most ", kMaxSocketPath, " bytes"));
  }
  return text;
}

absl::StatusOr<double> ParseSeconds(const std::string& text) {
  double seconds = 0;
  if (absl::SimpleAtod(text, &seconds) && std::isfinite(seconds) && seconds >= 0) return seconds;
  return absl::InvalidArgumentError("expected a time in seconds, not negative");
}

absl::StatusOr<std::string> ParseSource(const std::string& text) {
  if (discovery::FindSource(text) != nullptr) return text;
  return absl::InvalidArgumentError("expected one of " + discovery::SourceNames());
}

absl::StatusOr<bool> ParseEither(const std::string& text, const char* yes, const char* no) {
  if (text == yes) return true;
  if (text == no) return false;
  return absl::InvalidArgumentError(absl::StrCat("expected ", no, " or ", yes));
}

// torchrun's rendezvous handlers. With each of them the nodes use muster's own rendezvous.
absl::StatusOr<std::string> ParseBackend(const std::string& text) {
  for (const char* known : {"static", "c10d", "etcd", "etcd-v2"}) {
    if (text == known) return text;
  }
  return absl::InvalidArgumentError(
      "expected static, c10d, etcd or etcd-v2; muster needs none: leave the option out");
}

absl::StatusOr<std::string> ParseStartMethod(const std::string& text) {
  if (text == "spawn" || text == "fork" || text == "forkserver") return text;
  return absl::InvalidArgumentError("expected spawn, fork or forkserver");
}

absl::StatusOr<std::string> ParseEventLogHandler(const std::string& text) {
  if (text == "null") return text;
  return absl::InvalidArgumentError("names a Python handler, which muster cannot run; its log has the events");
}

absl::StatusOr<std::string> RefuseLogsSpecs(const std::string& /*text*/) {
  return absl::InvalidArgumentError(
      "names a Python class, which muster cannot run; use --log-dir, --redirects or --tee");
}

}  // namespace muster::cli
