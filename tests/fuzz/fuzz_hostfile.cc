// The part before the first NUL is a filter, the rest a hostfile; without a NUL all of it is a hostfile.
#include "agent/platform/discovery/hostfile.h"
#include "tests/fuzz/sound.h"

namespace {

void Check(const absl::StatusOr<std::vector<muster::discovery::HostSlots>>& hosts) {
  if (!hosts.ok()) return muster::fuzz::CheckError(hosts.status());
  MUSTER_CHECK(!hosts->empty() && hosts->size() <= muster::discovery::kMaxHosts, "how many hosts");
  for (const auto& host : *hosts) {
    MUSTER_CHECK(!host.host.empty() && !host.slots.empty(), "a host without a name or slots");
    MUSTER_CHECK(host.slots.size() <= muster::discovery::kMaxHostSlots, "how many slots");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace muster::discovery;
  const std::string text = muster::fuzz::TextOf(data, size);
  const size_t nul = text.find('\0');
  const std::string filter = nul == std::string::npos ? "" : text.substr(0, nul);
  const auto hosts = ParseHostfile("hostfile", nul == std::string::npos ? text : text.substr(nul + 1));
  Check(hosts);
  if (!hosts.ok() || filter.empty()) return 0;
  Check(FilterHosts(*hosts, filter, ""));
  Check(FilterHosts(*hosts, "", filter));
  return 0;
}
