#include "agent/platform/machine/node_facts.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "base/text/mask_secrets.h"
#include "base/text/text.h"
#include "base/text/utf8.h"
#include "base/wire/facts.h"

namespace muster::machine {
namespace {

constexpr const char* kFamilies[] = {"NCCL_", "TORCH_NCCL_", "GLOO_"};
// Variables that differ between nodes by design.
constexpr const char* kOfOneNode[] = {"NCCL_HOSTID"};

bool IsShared(const std::string& variable) {
  const auto begins = [&](const char* family) { return absl::StartsWith(variable, family); };
  return std::any_of(std::begin(kFamilies), std::end(kFamilies), begins) &&
         std::find(std::begin(kOfOneNode), std::end(kOfOneNode), variable) == std::end(kOfOneNode);
}

// FNV-1a, 64 bits: for a message only, so collisions do no harm.
uint64_t Hash(std::string_view text) {
  uint64_t hash = 14695981039346656037u;
  for (const unsigned char c : text) hash = (hash ^ c) * 1099511628211u;
  return hash;
}

// "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat Aug 19 ..."; the open one says "NVIDIA UNIX
// Open Kernel Module for x86_64  560.35.03  Release Build". Empty: no driver.
std::string DriverVersion(const MachineProbe& probe) {
  const std::string text = probe.read("/proc/driver/nvidia/version").value_or("");
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    if (!absl::StartsWith(line, "NVRM version:")) continue;
    for (const absl::string_view word : absl::StrSplit(line, ' ', absl::SkipEmpty())) {
      const bool is_version =
          absl::ascii_isdigit(static_cast<unsigned char>(word.front())) && absl::StrContains(word, '.');
      if (is_version) return std::string(word);
    }
  }
  return "";
}

// "NVIDIA H100 80GB HBM3"; on a machine with several types a list of them.
std::string GpuTypes(const MachineProbe& probe) {
  constexpr absl::string_view kField = "Model:";
  std::set<std::string> types;
  for (const std::string& bus_id : probe.list("/proc/driver/nvidia/gpus")) {
    const std::string text =
        probe.read(absl::StrCat("/proc/driver/nvidia/gpus/", bus_id, "/information")).value_or("");
    for (const absl::string_view line : absl::StrSplit(text, '\n')) {
      if (!absl::StartsWith(line, kField)) continue;
      types.emplace(absl::StripAsciiWhitespace(line.substr(kField.size())));
    }
  }
  return absl::StrJoin(types, ", ");
}

}  // namespace

std::string FactValue(std::string_view value, size_t max_bytes) {
  std::string whole = ToUtf8(value, value.size());
  if (whole.size() <= max_bytes) return whole;
  const std::string tail = absl::StrCat("... (", absl::Hex(Hash(value), absl::kZeroPad16), ")");
  return CutUtf8(whole, max_bytes - std::min(max_bytes, tail.size())) + tail;
}

Facts MachineFacts(const Environment& environment, const MachineProbe& probe) {
  Facts facts;
  if (const std::string driver = DriverVersion(probe); !driver.empty()) facts["NVIDIA driver"] = FactValue(driver);
  if (const std::string types = GpuTypes(probe); !types.empty()) facts["GPU type"] = FactValue(types);
  for (const auto& [name, value] : environment) {
    if (!IsShared(name) || name.size() > kMaxFactNameBytes || facts.size() >= kMaxFacts) continue;
    facts[ToUtf8(name, kMaxFactNameBytes)] = FactValue(MaskValue(name, value));
  }
  return facts;
}

std::string ArgumentsFact(const std::string& script, const std::vector<std::string>& arguments) {
  std::vector<std::string> words = MaskArguments(arguments);
  words.insert(words.begin(), MaskText(script));
  return FactValue(absl::StrJoin(words, " "), kMaxArgumentsBytes);
}

std::string PythonFact(const std::string& path, const std::string& target) {
  absl::string_view version = absl::string_view(target).substr(target.rfind('/') + 1);
  const bool is_named = absl::ConsumePrefix(&version, "python") && absl::StrContains(version, '.');
  return is_named ? FactValue(absl::StrCat(version, std::string(1, kNotCompared), path)) : "";
}

std::string ContentFact(std::string_view content) {
  return absl::StrCat(absl::Hex(Hash(content), absl::kZeroPad16));
}

}  // namespace muster::machine
