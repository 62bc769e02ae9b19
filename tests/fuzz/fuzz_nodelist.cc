#include "agent/platform/discovery/nodelist.h"
#include "tests/fuzz/sound.h"

namespace {

// A list of the full size takes as long as a thousand of this size and runs the same code, so most inputs have
// this size.
constexpr size_t kFew = 64;
constexpr size_t kFullEvery = 256;  // an input whose length is a multiple of it has the full size

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace muster::discovery;
  const std::string text = muster::fuzz::TextOf(data, size);
  const size_t most = size % kFullEvery == 0 ? kMaxNodelistHosts : kFew;
  const absl::StatusOr<std::vector<std::string>> hosts = ExpandNodelist("LIST", text, most);
  if (hosts.ok()) {
    MUSTER_CHECK(!hosts->empty() && hosts->size() <= most, "how many hosts");
    for (const std::string& host : *hosts) MUSTER_CHECK(!host.empty(), "a host without a name");
  } else {
    muster::fuzz::CheckError(hosts.status());
  }
  const absl::StatusOr<std::vector<int>> counts = ExpandCounts("COUNTS", text, most);
  if (counts.ok()) {
    MUSTER_CHECK(!counts->empty() && counts->size() <= most, "how many counts");
  } else {
    muster::fuzz::CheckError(counts.status());
  }
  return 0;
}
