// The input is a whole environment, one NAME=VALUE a line, for all sources together.
#include "agent/platform/discovery/discover.h"
#include "tests/fuzz/sound.h"

namespace {

using muster::Environment;

Environment EnvironmentOf(const std::string& text) {
  Environment environment;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    const size_t equals = text.find('=', begin);
    if (equals < end) environment[text.substr(begin, equals - begin)] = text.substr(equals + 1, end - equals - 1);
    begin = end + 1;
  }
  return environment;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace muster::discovery;
  const Environment environment = EnvironmentOf(muster::fuzz::TextOf(data, size));
  const FileReader no_files = [](const std::string& path, size_t) { return absl::NotFoundError(path); };
  const absl::StatusOr<ClusterView> view = Discover({environment, no_files}, {});
  if (!view.ok()) {
    muster::fuzz::CheckError(view.status());
    return 0;
  }
  MUSTER_CHECK(view->nnodes >= 1 && view->node_rank < view->nnodes, "a place of the job");
  MUSTER_CHECK(view->nodes.empty() || static_cast<size_t>(view->nnodes) == view->nodes.size(),
               "names of all or none");
  for (const std::string& warning : view->warnings) muster::fuzz::CheckOneLine(warning);
  muster::fuzz::CheckOneLine(view->source);
  return 0;
}
