// The input is resourceconfig.json or one of the files beside it, chosen by its length, which fuzzing varies too.
#include "agent/platform/discovery/sagemaker.h"
#include "tests/fuzz/sound.h"

namespace {

constexpr char kHosts[] = R"({"current_host":"a","hosts":["a"]})";

void Read(const std::string& config, const std::string& beside, const std::string& groups) {
  const muster::discovery::FileReader reader = [&](const std::string& path,
                                                   size_t max_bytes) -> absl::StatusOr<std::string> {
    const std::string& text = path == muster::discovery::kSageMakerConfig ? config : beside;
    if (text.size() > max_bytes) return absl::ResourceExhaustedError("too long");
    return text;
  };
  const muster::Environment environment;
  muster::fuzz::CheckSound(muster::discovery::ReadSageMaker({environment, reader}, {.instance_groups = groups}));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text = muster::fuzz::TextOf(data, size);
  switch (size % 3) {
    case 0:
      Read(text, "{}", "");
      break;
    case 1:
      Read(text, "{}", "train1");
      break;
    default:
      Read(kHosts, text, "");
  }
  return 0;
}
