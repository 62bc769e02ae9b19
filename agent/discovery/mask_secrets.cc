#include "agent/discovery/mask_secrets.h"

#include <algorithm>
#include <iterator>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "proto/base/status_macros.h"

namespace muster::discovery {
namespace {

// Whole words of a name, between underscores.
constexpr std::string_view kSecretWords[] = {"AUTH", "BEARER", "COOKIE", "DSN", "JWT",      "KEY",
                                             "KEYS", "PASS",   "PAT",    "PW",  "SIGNATURE"};
// Parts of a word, for names like GITHUBTOKEN and MYSQLPASSWORD.
constexpr std::string_view kSecretParts[] = {"APIKEY",   "CREDENTIAL", "PASSPHRASE", "PASSWD",
                                             "PASSWORD", "PRIVATEKEY", "SECRET"};

bool IsSecretWord(absl::string_view word) {
  const auto is_word = [&](std::string_view secret) { return AsStd(word) == secret; };
  const auto is_part = [&](std::string_view secret) { return absl::StrContains(word, AsAbsl(secret)); };
  // TOKENIZERS_PARALLELISM begins with it, a token's name ends with it.
  return absl::EndsWith(word, "TOKEN") || absl::EndsWith(word, "TOKENS") ||
         std::any_of(std::begin(kSecretWords), std::end(kSecretWords), is_word) ||
         std::any_of(std::begin(kSecretParts), std::end(kSecretParts), is_part);
}

// user:password between "://" and the last @ before the path.
std::string MaskUserInUrls(const std::string& value) {
  std::string masked;
  size_t from = 0;
  while (true) {
    const size_t scheme = value.find("://", from);
    if (scheme == std::string::npos) return masked.append(value, from);
    const size_t start = scheme + 3;
    const size_t end = std::min(value.find_first_of("/?# \t\n\"',", start), value.size());
    const size_t at = value.substr(start, end - start).rfind('@');
    masked.append(value, from, start - from);
    if (at != std::string::npos) masked.append(kMask);
    from = at == std::string::npos ? start : start + at;
  }
}

}  // namespace

bool IsSecretName(std::string_view name) {
  const std::string upper = absl::AsciiStrToUpper(AsAbsl(name));
  if (upper == "PWD" || upper == "OLDPWD") return false;
  const std::vector<std::string> words = absl::StrSplit(upper, absl::ByAnyChar("_-."));
  return std::any_of(words.begin(), words.end(),
                     [](const std::string& word) { return word == "PWD" || IsSecretWord(word); });
}

Environment MaskSecrets(const Environment& environment) {
  Environment masked;
  for (const auto& [name, value] : environment) {
    masked[name] = IsSecretName(name) && !value.empty() ? kMask : MaskUserInUrls(value);
  }
  return masked;
}

}  // namespace muster::discovery
