// CUDA_VISIBLE_DEVICES and its likes, read as CUDA and torch read them. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace muster::machine {

struct PhysicalDevice {
  std::string uuid;                    // "GPU-..."; empty: not known
  std::vector<std::string> mig_uuids;  // its MIG devices, "MIG-..."; empty: MIG is off
};

struct VisibleDevices {
  int usable = 0;                     // devices, each for one worker
  bool apart = false;                 // a process can use one of them only (MIG): each worker is to see its own
  std::vector<std::string> entries;   // those of the list that stand; indices where there is no list
  std::vector<std::string> warnings;  // what was ignored, one line each
};

// `list` is the variable's value, nullopt if it is not set. Indices, then nothing after the first entry that is
// negative, no number or beyond the last device; UUIDs by any unambiguous beginning; MIG devices, of which CUDA
// gives a process one at most. "" and "-1" mean none, and so does a device named twice.
VisibleDevices ReadVisibleDevices(const std::string& variable, const std::optional<std::string>& list,
                                  const std::vector<PhysicalDevice>& devices);

}  // namespace muster::machine
