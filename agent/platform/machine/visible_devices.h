// Reads CUDA_VISIBLE_DEVICES and similar variables as CUDA and torch read them. Pure.
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
  bool apart = false;                 // a process can use only one of them (MIG): each worker must see its own
  std::vector<std::string> entries;   // the valid entries of the list; indices if there is no list
  std::vector<std::string> warnings;  // about ignored entries, one line each
};

// list: the variable's value; nullopt: not set. Entries are indices, UUIDs or unambiguous prefixes of UUIDs, and
// MIG devices, of which CUDA gives a process at most one. The first entry that is negative, no number or beyond
// the last device ends the list. "" and "-1" mean no device, and so does a list that names a device twice.
VisibleDevices ReadVisibleDevices(const std::string& variable, const std::optional<std::string>& list,
                                  const std::vector<PhysicalDevice>& devices);

}  // namespace muster::machine
