#include "cli/options/deepspeed_env.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/core/status_macros.h"
#include "base/text/problem.h"

namespace muster::cli {
namespace {

bool IsName(absl::string_view text) {
  const auto allowed = [](unsigned char c) { return absl::ascii_isalnum(c) || c == '_'; };
  return !text.empty() && !absl::ascii_isdigit(static_cast<unsigned char>(text[0])) &&
         std::all_of(text.begin(), text.end(), allowed);
}

}  // namespace

absl::StatusOr<Environment> ParseDeepspeedEnv(const std::string& file, std::string_view text) {
  if (text.size() > kMaxDeepspeedEnvBytes || text.find('\0') != std::string_view::npos) {
    return absl::InvalidArgumentError(
        absl::StrCat(file, ": expected a text of at most ", kMaxDeepspeedEnvBytes, " bytes"));
  }
  Environment variables;
  int number = 0;
  for (const absl::string_view raw : absl::StrSplit(AsAbsl(text), '\n')) {
    ++number;
    const absl::string_view line = absl::StripAsciiWhitespace(raw);
    if (line.empty() || line[0] == '#') continue;
    const size_t equals = line.find('=');
    const absl::string_view name = absl::StripAsciiWhitespace(line.substr(0, equals));
    if (equals == absl::string_view::npos || !IsName(name)) {
      return absl::InvalidArgumentError(
          absl::StrCat(file, ": line ", number, " is ", Shown(AsStd(line)), ": expected NAME=VALUE"));
    }
    variables[std::string(AsStd(name))] = std::string(AsStd(line.substr(equals + 1)));
  }
  return variables;
}

}  // namespace muster::cli
