// The one-line error about a wrong setting: source, field, value, what was expected, what to do.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace muster {

inline constexpr size_t kMaxShownChars = 80;  // of a foreign value in a message

struct Problem {
  std::string source;                // the variable or file: "CLUSTER_SPEC"
  std::string field;                 // "task.index"; empty: the whole source
  std::optional<std::string> value;  // as found; nullopt: missing
  std::string expected;              // "a number from 0 to 2"
  std::string advice;                // what to do; empty: correct the source, or pass options in its place
};

// InvalidArgument with the message `SOURCE: FIELD is VALUE: expected EXPECTED; ADVICE`. Always one line; source,
// field and value are cut at kMaxShownChars.
absl::Status ToStatus(const Problem& problem);

// InvalidArgument for a file that cannot be read: `SOURCE PATH: file not found` or `SOURCE PATH: cannot be read:
// WHY`, then `; ADVICE`. reason: the error of the reader; "PATH: " at its front is not repeated. One line,
// escaped.
absl::Status UnreadableFile(std::string_view source, std::string_view path, const absl::Status& reason,
                            std::string_view advice);

// At most kMaxShownChars characters, all printable ASCII (else \n, \xNN), with secrets masked as by MaskText.
std::string Shown(std::string_view text);

}  // namespace muster
