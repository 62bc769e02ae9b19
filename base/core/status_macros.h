// RETURN_IF_ERROR and ASSIGN_OR_RETURN (Debian's Abseil has none), and conversions between std::string_view and
// absl::string_view.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace muster {

// Debian builds Abseil with its own string_view, which does not convert to std::string_view.
inline std::string_view AsStd(absl::string_view s) { return {s.data(), s.size()}; }
inline absl::string_view AsAbsl(std::string_view s) { return {s.data(), s.size()}; }

// The status with `context` before its message: "reading CLUSTER_SPEC: not JSON".
inline absl::Status WithContext(const absl::Status& status, std::string_view context) {
  if (status.ok()) return status;
  std::string message(context);
  message.append(": ").append(AsStd(status.message()));
  return absl::Status(status.code(), message);
}

}  // namespace muster

#define RETURN_IF_ERROR(expr)                                         \
  do {                                                                \
    if (absl::Status status_ = (expr); !status_.ok()) return status_; \
  } while (false)

#define MUSTER_CONCAT_INNER(a, b) a##b
#define MUSTER_CONCAT(a, b) MUSTER_CONCAT_INNER(a, b)
#define ASSIGN_OR_RETURN(lhs, expr) ASSIGN_OR_RETURN_IMPL(MUSTER_CONCAT(result_, __LINE__), lhs, expr)
#define ASSIGN_OR_RETURN_IMPL(result, lhs, expr) \
  auto result = (expr);                          \
  if (!result.ok()) return result.status();      \
  lhs = std::move(result).value()
