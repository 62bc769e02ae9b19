// Properties of every reading, for any input. A violation ends the process, so that libFuzzer keeps the input.
#pragma once

#include <cctype>
#include <cstddef>
#include <cstdint>
#include <string>

#include "agent/platform/discovery/cluster_view.h"
#include "base/core/check.h"

namespace muster::fuzz {

inline constexpr size_t kMaxMessageBytes = 1000;  // a few values of at most 80 characters, and text

inline std::string TextOf(const uint8_t* data, size_t size) { return {reinterpret_cast<const char*>(data), size}; }

inline void CheckOneLine(const std::string& message) {
  MUSTER_CHECK(!message.empty() && message.size() <= kMaxMessageBytes, message.c_str());
  for (const char c : message) MUSTER_CHECK(c >= 0x20 && c < 0x7f, message.c_str());
}

inline void CheckError(const absl::Status& status) {
  MUSTER_CHECK(absl::IsInvalidArgument(status) || absl::IsUnavailable(status), "an error of another kind");
  CheckOneLine(std::string(status.message().data(), status.message().size()));
}

inline void CheckSound(const discovery::Reading& reading) {
  if (!reading.ok()) return CheckError(reading.status());
  if (!reading->has_value()) return;
  const discovery::ClusterView& view = **reading;
  MUSTER_CHECK(view.nnodes >= 1 && static_cast<size_t>(view.nnodes) == view.nodes.size(), "nodes and their count");
  MUSTER_CHECK(view.node_rank < view.nnodes, "a rank beyond the last");
  MUSTER_CHECK((view.node_rank >= 0) == (view.role == discovery::NodeRole::kTrainer), "trainers have ranks");
  MUSTER_CHECK(!view.primary_host.empty() && view.primary_port != 0, "there is a primary");
  for (const std::string& warning : view.warnings) CheckOneLine(warning);
  for (const auto& [name, value] : view.for_workers) {
    MUSTER_CHECK(!name.empty() && name.find_first_of(std::string("=\0", 2)) == std::string::npos,
                 "a variable's name");
    MUSTER_CHECK(value.find('\0') == std::string::npos, "a variable's value");
  }
  for (const std::string& argument : view.hyperparameters) {
    MUSTER_CHECK(argument.find('\0') == std::string::npos, "an argument");
  }
}

}  // namespace muster::fuzz
