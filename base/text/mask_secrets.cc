#include "base/text/mask_secrets.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "base/core/status_macros.h"

namespace muster {
namespace {

// Whole words of a name, between underscores.
constexpr std::string_view kSecretWords[] = {"AUTH", "AUTHORIZATION", "BEARER", "COOKIE", "CREDS",
                                             "DSN",  "JWT",           "KEY",    "KEYS",   "PASS",
                                             "PAT",  "PSK",           "PW",     "SIG",    "SIGNATURE"};
// Parts of a word, for names like GITHUBTOKEN and MYSQLPASSWORD.
constexpr std::string_view kSecretParts[] = {"ACCESSKEY", "APIKEY",   "CREDENTIAL", "PASSPHRASE",
                                             "PASSWD",    "PASSWORD", "PRIVATEKEY", "SECRET"};

// Prefixes by which tokens name their issuer.
constexpr std::string_view kTokenPrefixes[] = {"AIza", "AKIA",  "ASIA",        "eyJ",    "ghp_", "gho_", "ghs_",
                                               "ghu_", "ghr_",  "github_pat_", "glpat-", "hf_",  "npm_", "pypi-",
                                               "sk-",  "xapp-", "xoxb-",       "xoxp-",  "ya29"};
constexpr size_t kLeastTokenChars = 16;  // after the prefix; all known tokens have more
constexpr size_t kMaxCountChars = 12;    // of the value of an option such as --max-tokens

bool IsNameChar(char c) {
  return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '-' || c == '.';
}

bool IsSecretWord(absl::string_view word) {
  const auto is_word = [&](std::string_view secret) { return AsStd(word) == secret; };
  const auto is_part = [&](std::string_view secret) { return absl::StrContains(word, AsAbsl(secret)); };
  // A token's name ends with TOKEN; TOKENIZERS_PARALLELISM only begins with it.
  return absl::EndsWith(word, "TOKEN") || absl::EndsWith(word, "TOKENS") ||
         std::any_of(std::begin(kSecretWords), std::end(kSecretWords), is_word) ||
         std::any_of(std::begin(kSecretParts), std::end(kSecretParts), is_part);
}

constexpr std::string_view kBlanks = " \t\r\n\"'";      // end an address
constexpr std::string_view kAfterHost = "/?#,;";        // end its host and port
constexpr std::string_view kBeforeUser = "/?#,;=&";     // may precede a user without a scheme
constexpr std::string_view kAddressParts = "/?#,;=&@";  // end the remainder of a password that contains an @

size_t FirstOf(std::string_view text, std::string_view characters, size_t from) {
  return std::min(text.find_first_of(characters, from), text.size());
}

// The colon before a password in "user:password"; npos: none. ":8080/" separates a port.
size_t PasswordColon(std::string_view part) {
  size_t colon = part.find(':');
  while (colon != std::string_view::npos) {
    const size_t digits_end = std::min(part.find_first_not_of("0123456789", colon + 1), part.size());
    const bool is_port =
        digits_end > colon + 1 && digits_end < part.size() && kAfterHost.find(part[digits_end]) != kAfterHost.npos;
    if (!is_port) return colon;
    colon = part.find(':', digits_end);
  }
  return colon;
}

// Where the user begins in `part`, the text between the scheme (or the beginning of a word) and an @; npos:
// nothing is to be masked. Without a scheme, a part without a colon is only a name and stays.
size_t UserBegin(std::string_view part, bool has_scheme) {
  if (has_scheme && FirstOf(part, kAfterHost, 0) == part.size()) return 0;
  const size_t colon = PasswordColon(part);
  if (colon == std::string_view::npos) return colon;
  const size_t before = part.substr(0, colon).find_last_of(kBeforeUser);
  return before == std::string_view::npos ? 0 : before + 1;
}

// Masks user:password before the @ of each address in a word without blanks. The password may contain the
// characters that a URL should encode.
void MaskUsersOfWord(std::string_view word, std::string* masked) {
  size_t from = 0;
  for (size_t at = word.find('@'); at != std::string_view::npos; at = word.find('@', from)) {
    const size_t scheme = word.substr(0, at).rfind("://");
    const bool has_scheme = scheme != std::string_view::npos && scheme + 3 > from;
    const size_t part = has_scheme ? scheme + 3 : from;
    const size_t user = UserBegin(word.substr(part, at - part), has_scheme);
    if (user == std::string_view::npos) {
      masked->append(word, from, at + 1 - from);
      from = at + 1;
      continue;
    }
    for (size_t next = FirstOf(word, kAddressParts, at + 1); next < word.size() && word[next] == '@';
         next = FirstOf(word, kAddressParts, at + 1)) {
      at = next;
    }
    masked->append(word, from, part + user - from).append(kMask).append("@");
    from = at + 1;
  }
  masked->append(word, from);
}

std::string MaskUsers(std::string_view text) {
  std::string masked;
  for (size_t i = 0; i < text.size();) {
    const size_t end = FirstOf(text, kBlanks, i);
    MaskUsersOfWord(text.substr(i, end - i), &masked);
    if (end < text.size()) masked += text[end];
    i = end + 1;
  }
  return masked;
}

// Words of prose and names of modules may begin with such a prefix, too; tokens are long and not made of words.
bool IsToken(std::string_view word) {
  const auto is_token = [&](std::string_view prefix) {
    if (word.substr(0, prefix.size()) != prefix) return false;
    const std::string_view rest = word.substr(prefix.size());
    const auto is_lower_or_separator = [](char c) {
      return c == '_' || c == '-' || c == '.' || (c >= 'a' && c <= 'z');
    };
    const bool in_pieces = rest.find_first_of("_-.") != std::string_view::npos;
    return rest.size() >= kLeastTokenChars &&
           !(in_pieces && std::all_of(rest.begin(), rest.end(), is_lower_or_separator));
  };
  return std::any_of(std::begin(kTokenPrefixes), std::end(kTokenPrefixes), is_token);
}

std::string MaskTokens(std::string_view text) {
  std::string masked;
  for (size_t i = 0; i < text.size();) {
    size_t end = i;
    while (end < text.size() && IsNameChar(text[end])) ++end;
    const std::string_view word = text.substr(i, end - i);
    masked.append(IsToken(word) ? std::string_view(kMask) : word);
    if (end < text.size()) masked += text[end++];
    i = end;
  }
  return masked;
}

// The value of --max-tokens 4096 and the like: no secret, and the value that differs between nodes most often.
bool IsCount(std::string_view name, std::string_view value) {
  const auto is_digit = [](char c) { return (c >= '0' && c <= '9') || c == '_'; };
  return absl::EndsWithIgnoreCase(AsAbsl(name), "tokens") && !value.empty() && value.size() <= kMaxCountChars &&
         std::all_of(value.begin(), value.end(), is_digit);
}

// Our own variables say where a secret lies, and are wrong more often than secret. A value that is no absolute
// path may be the secret all the same, and so may that of anybody else's variable.
bool IsPathOfSecret(std::string_view name, std::string_view value) {
  return (name == kTokenFileVariable || name.starts_with("MUSTER_TLS_")) && value.front() == '/';
}

struct SecretPlace {
  size_t begin = 0;  // of the value; the size of the text if the value is in the next argument
  std::string_view name;
};

// The first name like a secret's and its value's position. A name within a path does not count.
std::optional<SecretPlace> FindSecret(std::string_view text) {
  for (size_t i = 0; i < text.size(); ++i) {
    if (!IsNameChar(text[i])) continue;
    size_t end = i;
    while (end < text.size() && IsNameChar(text[end])) ++end;
    const std::string_view name = text.substr(i, end - i);
    i = end;
    if (!IsSecretName(name) || (end < text.size() && (text[end] == '/' || text[end] == '\\'))) continue;
    const size_t value = std::min(text.find_first_not_of("=:\"' \t\n", end), text.size());
    const size_t value_end = std::min(text.find_first_of(" \t\n,;}\"'", value), text.size());
    if (!IsCount(name, text.substr(value, value_end - value))) return SecretPlace{value, name};
  }
  return std::nullopt;
}

}  // namespace

std::string MaskText(std::string_view text) {
  // Addresses come first: a password in one may look like a secret's name.
  const std::string plain = MaskUsers(text);
  const std::optional<SecretPlace> secret = FindSecret(plain);
  if (!secret) return MaskTokens(plain);
  const std::string masked = MaskTokens(std::string_view(plain).substr(0, secret->begin));
  return secret->begin < plain.size() ? masked + kMask : masked;
}

std::string MaskValue(std::string_view name, std::string_view value) {
  if (value.empty()) return "";
  return IsSecretName(name) && !IsPathOfSecret(name, value) ? kMask : MaskText(value);
}

std::vector<std::string> MaskArguments(const std::vector<std::string>& arguments) {
  std::vector<std::string> masked;
  std::optional<std::string> expected;  // the name whose value comes next
  for (const std::string& argument : arguments) {
    // After an option the next argument is its value, even one that begins with dashes. After another word, an
    // option is no value.
    const bool is_value = expected && !IsCount(*expected, argument) &&
                          (expected->front() == '-' || !absl::StartsWith(argument, "-"));
    masked.push_back(is_value && !argument.empty() ? kMask : MaskText(argument));
    expected.reset();
    const std::string plain = MaskUsers(argument);
    const std::optional<SecretPlace> secret = FindSecret(plain);
    if (secret && secret->begin == plain.size()) expected = plain;
  }
  return masked;
}

bool IsSecretName(std::string_view name) {
  const std::string upper = absl::AsciiStrToUpper(AsAbsl(name));
  if (upper == "PWD" || upper == "OLDPWD") return false;
  const std::vector<std::string> words = absl::StrSplit(upper, absl::ByAnyChar("_-."));
  return std::any_of(words.begin(), words.end(),
                     [](const std::string& word) { return word == "PWD" || IsSecretWord(word); });
}

Environment MaskSecrets(const Environment& environment) {
  Environment masked;
  for (const auto& [name, value] : environment) masked[name] = MaskValue(name, value);
  return masked;
}

}  // namespace muster
