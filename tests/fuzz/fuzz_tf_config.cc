#include "agent/platform/discovery/tf_config.h"
#include "tests/fuzz/sound.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  muster::fuzz::CheckSound(muster::discovery::ReadTfConfig({{"TF_CONFIG", muster::fuzz::TextOf(data, size)}}));
  return 0;
}
