// A file of tokens, read again during the job.
#pragma once

#include <string>

#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "base/io/bounded_call.h"
#include "base/io/secret_file.h"
#include "base/text/tokens.h"

namespace muster {

inline constexpr absl::Duration kTokenReadLimit = absl::Seconds(1);

// The tokens of the file, one a line. Empty: the file holds no good ones now, or cannot be read in time.
inline std::string TokenLines(const std::string& path) {
  const auto file =
      CallWithin(kTokenReadLimit, [path] { return ReadSecretFile(path, FileKind::kSecret, kMaxTokenFileBytes); });
  if (!file || !file->ok()) return "";
  const auto tokens = ParseTokens((*file)->text);
  return tokens.ok() ? absl::StrJoin(*tokens, "\n") : "";
}

}  // namespace muster
