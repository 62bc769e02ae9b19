#include "agent/platform/machine/visible_devices.h"

#include <algorithm>
#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/text/problem.h"

namespace muster::machine {
namespace {

constexpr char kGpuPrefix[] = "GPU-";
constexpr char kMigPrefix[] = "MIG-";

struct Selection {
  std::string entry;
  size_t device = 0;
  bool mig = false;
};

// The leading digits, as strtoul reads them: "1gpu" is 1. nullopt: no digits, or a sign before them.
std::optional<size_t> LeadingNumber(const std::string& entry) {
  const size_t digits = std::min(entry.find_first_not_of("0123456789"), entry.size());
  size_t number = 0;
  if (!absl::SimpleAtoi(entry.substr(0, digits), &number)) return std::nullopt;
  return number;
}

// The device whose UUID begins with `entry`; nullopt if there is none, or more than one.
std::optional<size_t> ByUuid(const std::string& entry, const std::vector<PhysicalDevice>& devices) {
  std::optional<size_t> found;
  for (size_t i = 0; i < devices.size(); ++i) {
    if (!absl::StartsWith(devices[i].uuid, entry)) continue;
    if (found.has_value()) return std::nullopt;
    found = i;
  }
  return found;
}

std::optional<size_t> ByMigUuid(const std::string& entry, const std::vector<PhysicalDevice>& devices) {
  for (size_t i = 0; i < devices.size(); ++i) {
    for (const std::string& mig : devices[i].mig_uuids) {
      if (mig == entry) return i;
    }
  }
  return std::nullopt;
}

// If the UUIDs are not known (no nvidia-smi), as many listed UUIDs are accepted as there are devices.
bool UuidsKnown(const std::vector<PhysicalDevice>& devices) {
  return std::all_of(devices.begin(), devices.end(), [](const PhysicalDevice& d) { return !d.uuid.empty(); });
}

// The device that an entry names; nullopt: none, and the rest of the list is ignored.
std::optional<Selection> Select(const std::string& entry, size_t position,
                                const std::vector<PhysicalDevice>& devices) {
  if (devices.empty()) return std::nullopt;
  const bool known = UuidsKnown(devices);
  if (absl::StartsWith(entry, kMigPrefix)) {
    const bool old_form = absl::StartsWith(entry, "MIG-GPU-");  // MIG-GPU-<uuid>/<gi>/<ci>, before driver 470
    const std::optional<size_t> device = ByMigUuid(entry, devices);
    if (!device.has_value() && known && !old_form) return std::nullopt;
    return Selection{entry, device.value_or(0), true};
  }
  if (absl::StartsWith(entry, kGpuPrefix)) {
    std::optional<size_t> device = ByUuid(entry, devices);
    if (!known && position < devices.size()) device = position;
    if (!device.has_value()) return std::nullopt;
    return Selection{entry, *device, !devices[*device].mig_uuids.empty()};
  }
  const std::optional<size_t> index = LeadingNumber(entry);
  if (!index.has_value() || *index >= devices.size()) return std::nullopt;
  return Selection{std::to_string(*index), *index, !devices[*index].mig_uuids.empty()};
}

std::vector<Selection> SelectAll(const std::vector<PhysicalDevice>& devices) {
  std::vector<Selection> all;
  for (size_t i = 0; i < devices.size(); ++i) {
    const std::vector<std::string>& migs = devices[i].mig_uuids;
    for (const std::string& mig : migs) all.push_back({mig, i, true});
    if (migs.empty()) all.push_back({std::to_string(i), i, false});
  }
  return all;
}

std::vector<Selection> SelectListed(const std::string& variable, const std::string& list,
                                    const std::vector<PhysicalDevice>& devices, VisibleDevices* visible) {
  std::vector<Selection> selected;
  std::set<std::pair<size_t, std::string>> seen;  // (device, MIG device); index and UUID may name the same one
  const std::vector<std::string> entries = absl::StrSplit(list, ',');
  for (size_t i = 0; i < entries.size(); ++i) {
    const std::string entry(absl::StripAsciiWhitespace(entries[i]));
    const std::optional<Selection> selection = Select(entry, i, devices);
    if (!selection.has_value()) {
      const bool means_none = i == 0 && (entry.empty() || entry == "-1");
      if (!means_none) {
        visible->warnings.push_back(absl::StrCat(variable, "=", Shown(list), ": entry ", i + 1, " (", Shown(entry),
                                                 ") names none of the ", devices.size(),
                                                 " devices here; it and what follows are ignored, as CUDA does"));
      }
      return selected;
    }
    if (!seen.emplace(selection->device, selection->mig ? selection->entry : "").second) {
      visible->warnings.push_back(absl::StrCat(variable, "=", Shown(list), ": ", Shown(entry),
                                               " is named twice; no device is visible then"));
      return {};
    }
    selected.push_back(*selection);
  }
  return selected;
}

}  // namespace

VisibleDevices ReadVisibleDevices(const std::string& variable, const std::optional<std::string>& list,
                                  const std::vector<PhysicalDevice>& devices) {
  VisibleDevices visible;
  const std::vector<Selection> selected =
      list.has_value() ? SelectListed(variable, *list, devices, &visible) : SelectAll(devices);
  for (const Selection& selection : selected) visible.entries.push_back(selection.entry);
  visible.usable = static_cast<int>(selected.size());
  visible.apart = std::any_of(selected.begin(), selected.end(), [](const Selection& s) { return s.mig; });
  return visible;
}

}  // namespace muster::machine
