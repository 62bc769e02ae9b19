#include "base/stacks/py_spy.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "base/core/status_macros.h"
#include "base/text/bounded_json.h"
#include "base/text/text.h"

namespace muster {
namespace {

using Json = nlohmann::json;

constexpr JsonLimits kLimits = {.max_bytes = kMaxPySpyBytes, .max_depth = 8};

// Empty if there is none, or if it is no text.
std::string TextOf(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? CutUtf8(found->get<std::string>(), kMaxFrameText) : "";
}

int64_t NumberOf(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_number_integer() ? found->get<int64_t>() : 0;
}

int LineOf(const Json& frame) {
  return static_cast<int>(std::clamp<int64_t>(NumberOf(frame, "line"), 0, std::numeric_limits<int>::max()));
}

PythonThread ThreadOf(const Json& thread, int64_t pid) {
  PythonThread result;
  result.name = TextOf(thread, "thread_name");
  result.is_main = NumberOf(thread, "os_thread_id") == pid;
  const auto frames = thread.find("frames");
  if (frames == thread.end() || !frames->is_array()) return result;
  for (const Json& frame : *frames) {
    if (!frame.is_object() || result.frames.size() >= kMaxFrames) break;
    std::string file = TextOf(frame, "filename");
    if (!IsOfImport(file)) result.frames.push_back({TextOf(frame, "name"), std::move(file), LineOf(frame)});
  }
  return result;
}

}  // namespace

absl::StatusOr<std::vector<PythonThread>> ParsePySpy(std::string_view json, int64_t pid) {
  ASSIGN_OR_RETURN(const Json document, ParseBoundedJson(json, kLimits));
  if (!document.is_array()) return absl::InvalidArgumentError("not a list of threads");
  std::vector<PythonThread> threads;
  for (const Json& thread : document) {
    if (!thread.is_object()) return absl::InvalidArgumentError("not a list of threads");
    threads.push_back(ThreadOf(thread, pid));
  }
  std::stable_partition(threads.begin(), threads.end(), [](const PythonThread& each) { return each.is_main; });
  if (threads.size() > kMaxPythonThreads) threads.resize(kMaxPythonThreads);
  return threads;
}

}  // namespace muster
