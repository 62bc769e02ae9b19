#include "agent/process/core/container_end.h"

#include "absl/strings/str_format.h"

namespace muster::agent {
namespace {

constexpr double kGiB = 1024.0 * 1024 * 1024;

}  // namespace

std::string HowContainerEnded(const v1::HostStatus& last) {
  const auto used = static_cast<double>(last.memory_used()), limit = static_cast<double>(last.memory_limit());
  if (limit == 0 || used * 100 < limit * kSuspectPercent) return "its training container ended";
  return absl::StrFormat(
      "its training container ended when it used %.2f of %.2f GiB of memory; the kernel probably killed it for "
      "that",
      used / kGiB, limit / kGiB);
}

}  // namespace muster::agent
