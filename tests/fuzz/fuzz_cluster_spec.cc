#include "agent/platform/discovery/vertex.h"
#include "tests/fuzz/sound.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text = muster::fuzz::TextOf(data, size);
  for (const bool all_pools : {false, true}) {
    muster::fuzz::CheckSound(muster::discovery::ReadVertex({{"CLUSTER_SPEC", text}}, {.all_pools = all_pools}));
  }
  return 0;
}
