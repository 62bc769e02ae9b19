#include "agent/platform/discovery/document.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/core/status_macros.h"
#include "base/text/problem.h"
#include "nlohmann/json.hpp"

namespace muster::discovery {
namespace {

using Json = nlohmann::json;

// Advice for typical errors that people and tools make when they put a JSON value into a variable.
std::string HintFor(std::string_view text) {
  if (text.front() == '\'') {
    return "the quotes are part of the value: docker --env-file and YAML block values take it without quotes";
  }
  if (text.front() == '"') return "the value is quoted twice: take the outer quotes away";
  if (text.front() == '#') return "JSON has no # comments: remove those lines";
  if (absl::StartsWith(AsAbsl(text), "{\\\"")) return "its quotes are escaped twice: write \" instead of \\\"";
  if (absl::StartsWith(AsAbsl(text), "{'"))
    return "it looks like a printed Python dict: write it with json.dumps()";
  return "";
}

// Invalid UTF-8 makes the results of the library's two error handlers differ.
bool IsUtf8(const std::string& text) {
  const Json value(text);
  return value.dump(-1, ' ', false, Json::error_handler_t::ignore) ==
         value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

std::string Spelled(const Json& value) {
  return value.is_string() ? value.get_ref<const std::string&>() : AsJson(value);
}

std::string AsJson(const Json& value) {
  // The library stores "-0" as a signed integer 0, and "0" as an unsigned one.
  if (value.is_number_integer() && !value.is_number_unsigned() && value.get<int64_t>() == 0) return "-0";
  return value.dump(-1, ' ', /*ensure_ascii=*/true, Json::error_handler_t::replace);
}

absl::Status DocumentReader::Missing(std::string field, std::string expected, std::string advice) const {
  return ToStatus({std::string(name_), std::move(field), std::nullopt, std::move(expected),
                   advice.empty() ? std::string(advice_) : std::move(advice)});
}

absl::Status DocumentReader::Wrong(std::string field, std::string value, std::string expected,
                                   std::string advice) const {
  return ToStatus({std::string(name_), std::move(field), std::move(value), std::move(expected),
                   advice.empty() ? std::string(advice_) : std::move(advice)});
}

absl::StatusOr<Json> DocumentReader::Parse(std::string_view text, const JsonLimits& limits,
                                           std::string_view expected) const {
  absl::StatusOr<Json> parsed = ParseBoundedJson(text, limits);
  if (!parsed.ok()) {
    return Wrong("", std::string(AsStd(parsed.status().message())), "one JSON object", HintFor(text));
  }
  if (parsed->is_string()) {
    return Wrong("", Spelled(*parsed), "one JSON object, not a string that holds one", HintFor(text));
  }
  if (!parsed->is_object()) return Wrong("", Spelled(*parsed), std::string(expected), HintFor(text));
  return parsed;
}

absl::StatusOr<const Json*> DocumentReader::ObjectIn(const Json& document, const char* field,
                                                     std::string_view expected) const {
  const auto found = document.find(field);
  if (found == document.end()) return Missing(field, std::string(expected));
  if (!found->is_object()) return Wrong(field, Spelled(*found), std::string(expected));
  return &*found;
}

absl::StatusOr<std::string> DocumentReader::StringIn(const Json& object, const char* key, const char* field,
                                                     std::string_view expected) const {
  const auto found = object.find(key);
  if (found == object.end()) return Missing(field, std::string(expected));
  if (!found->is_string()) return Wrong(field, Spelled(*found), std::string(expected));
  return found->get<std::string>();
}

absl::StatusOr<Address> DocumentReader::AddressOf(const Json& entry, const std::string& field) const {
  if (!entry.is_string()) return Wrong(field, Spelled(entry), "a string \"host:port\"");
  absl::StatusOr<Address> address = ParseAddress(entry.get_ref<const std::string&>());
  if (!address.ok()) return Wrong(field, Spelled(entry), std::string(AsStd(address.status().message())));
  if (IsAnyAddress(address->host)) {
    return Wrong(field, Spelled(entry), "an address by which others reach it, not that of all interfaces");
  }
  return address;
}

absl::StatusOr<int> DocumentReader::Index(const Json& task, const std::string& pool, size_t count,
                                          std::vector<std::string>* warnings) const {
  const std::string expected = count == 1 ? absl::StrCat("0, as ", pool, " has one replica")
                                          : absl::StrCat("a whole number from 0 to ", count - 1, ", as ", pool,
                                                         " has ", count, " replicas");
  const auto found = task.find("index");
  if (found == task.end()) return Missing("task.index", expected);
  if (found->is_string()) {
    const auto& text = found->get_ref<const std::string&>();
    uint64_t number = 0;
    const bool is_plain = absl::SimpleAtoi(text, &number) && absl::StrCat(number) == text;
    if (!is_plain || number >= count) return Wrong("task.index", AsJson(*found), expected);
    warnings->push_back(
        absl::StrCat(AsAbsl(name_), ": task.index is the text ", AsJson(*found), ", and is read as the number"));
    return static_cast<int>(number);
  }
  // The parser reads 1e0 and numbers over 64 bits as floating point, so they are refused here.
  if (!found->is_number_unsigned() || found->get<uint64_t>() >= count) {
    return Wrong("task.index", AsJson(*found), expected);
  }
  return static_cast<int>(found->get<uint64_t>());
}

absl::StatusOr<std::string> DocumentReader::Trial(const Json& task) const {
  const auto found = task.find("trial");
  if (found == task.end() || found->is_null()) return std::string();
  if (!found->is_string() && !found->is_number_integer()) {
    return Wrong("task.trial", Spelled(*found), "a string, as Vertex AI numbers the trials of a tuning job");
  }
  std::string trial = Spelled(*found);
  RETURN_IF_ERROR(CheckId("task.trial", trial));
  return trial;
}

absl::Status DocumentReader::CheckId(const std::string& field, const std::string& id) const {
  const bool plain = std::all_of(id.begin(), id.end(), [](unsigned char c) { return c >= 0x20 && c != 0x7f; });
  if (plain && id.size() <= kMaxIdChars && IsUtf8(id)) return absl::OkStatus();
  return Wrong(field, id,
               absl::StrCat("at most ", kMaxIdChars, " bytes of UTF-8, none of them a control character"));
}

}  // namespace muster::discovery
