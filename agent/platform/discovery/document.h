// Reads the JSON documents of several platforms, objects with lists of addresses and a task, and builds the error
// messages about them. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "agent/platform/discovery/address.h"
#include "base/text/bounded_json.h"

namespace muster::discovery {

inline constexpr size_t kMaxIdChars = 256;  // bytes of a job id or trial

// Reads fields of one document and names it in every error. `advice` is for errors without their own advice;
// empty: to correct or unset the variable. Both strings must outlive the reader.
class DocumentReader {
 public:
  constexpr explicit DocumentReader(std::string_view name, std::string_view advice = "")
      : name_(name), advice_(advice) {}

  absl::Status Missing(std::string field, std::string expected, std::string advice = "") const;
  absl::Status Wrong(std::string field, std::string value, std::string expected, std::string advice = "") const;

  // Parses one JSON object. text: not empty. expected: describes the object, for the error.
  absl::StatusOr<nlohmann::json> Parse(std::string_view text, const JsonLimits& limits,
                                       std::string_view expected) const;

  absl::StatusOr<const nlohmann::json*> ObjectIn(const nlohmann::json& document, const char* field,
                                                 std::string_view expected) const;
  // object[key], which errors call `field`.
  absl::StatusOr<std::string> StringIn(const nlohmann::json& object, const char* key, const char* field,
                                       std::string_view expected) const;

  // "host:port", or without the port.
  absl::StatusOr<Address> AddressOf(const nlohmann::json& entry, const std::string& field) const;

  // task.index: a whole number below `count`, the number of replicas of `pool`, which is at least 1. One in quotes
  // is read as well, with a warning: scripts that write the document themselves take it from a variable.
  absl::StatusOr<int> Index(const nlohmann::json& task, const std::string& pool, size_t count,
                            std::vector<std::string>* warnings) const;

  // task.trial: an opaque text, even if it looks like a number; empty outside of tuning jobs.
  absl::StatusOr<std::string> Trial(const nlohmann::json& task) const;

  // Checks an id for length, control characters and UTF-8: ids go into log lines, file names and messages.
  absl::Status CheckId(const std::string& field, const std::string& id) const;

 private:
  const std::string_view name_;
  const std::string_view advice_;
};

// A JSON value for a message. Strings appear without quotes.
std::string Spelled(const nlohmann::json& value);

// The same, with quotes around strings, for errors about the type of a value.
std::string AsJson(const nlohmann::json& value);

}  // namespace muster::discovery
