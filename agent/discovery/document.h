// What the documents of several platforms have in common: one JSON object with lists of addresses and a task, and
// the complaints about it. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "agent/discovery/address.h"
#include "base/bounded_json.h"

namespace muster::discovery {

inline constexpr size_t kMaxIdChars = 256;  // of a job id or trial, in bytes

// Reads fields of one document, and names it in every complaint. `advice`: what to do where a complaint has none
// of its own; empty: to correct or unset a variable. Both outlive the reader.
class DocumentReader {
 public:
  constexpr explicit DocumentReader(std::string_view name, std::string_view advice = "")
      : name_(name), advice_(advice) {}

  absl::Status Missing(std::string field, std::string expected, std::string advice = "") const;
  absl::Status Wrong(std::string field, std::string value, std::string expected, std::string advice = "") const;

  // One JSON object; `expected` says which. Not empty.
  absl::StatusOr<nlohmann::json> Parse(std::string_view text, const JsonLimits& limits,
                                       std::string_view expected) const;

  absl::StatusOr<const nlohmann::json*> ObjectIn(const nlohmann::json& document, const char* field,
                                                 std::string_view expected) const;
  // object[key], which is called `field` in complaints.
  absl::StatusOr<std::string> StringIn(const nlohmann::json& object, const char* key, const char* field,
                                       std::string_view expected) const;

  // "host:port", or without the port.
  absl::StatusOr<Address> AddressOf(const nlohmann::json& entry, const std::string& field) const;

  // task.index: a whole number below `count`, which is that of the replicas of `pool`, at least 1.
  absl::StatusOr<int> Index(const nlohmann::json& task, const std::string& pool, size_t count) const;

  // task.trial: opaque text, never a number, whatever it looks like; empty outside of tuning jobs.
  absl::StatusOr<std::string> Trial(const nlohmann::json& task) const;

  // Ids go into log lines, file names and messages to every node: no control characters, no surprise lengths.
  absl::Status CheckId(const std::string& field, const std::string& id) const;

 private:
  const std::string_view name_;
  const std::string_view advice_;
};

// A JSON value for a message: strings as they are, so that the message shows what the address says.
std::string Spelled(const nlohmann::json& value);

// The same where a string itself is what is wrong: in its quotes.
std::string AsJson(const nlohmann::json& value);

}  // namespace muster::discovery
