#include "agent/discovery/nodelist.h"
#include "tests/fuzz/sound.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace muster::discovery;
  const std::string text = muster::fuzz::TextOf(data, size);
  const absl::StatusOr<std::vector<std::string>> hosts = ExpandNodelist("LIST", text);
  if (hosts.ok()) {
    MUSTER_CHECK(!hosts->empty() && hosts->size() <= kMaxNodelistHosts, "how many hosts");
    for (const std::string& host : *hosts) MUSTER_CHECK(!host.empty(), "a host without a name");
  } else {
    muster::fuzz::CheckError(hosts.status());
  }
  const absl::StatusOr<std::vector<int>> counts = ExpandCounts("COUNTS", text);
  if (!counts.ok()) muster::fuzz::CheckError(counts.status());
  return 0;
}
