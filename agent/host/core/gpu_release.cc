#include "agent/host/core/gpu_release.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/text/text.h"

namespace muster::host {
namespace {

// "71, 72 and 3 more"
std::string Names(const std::set<int64_t>& pids) {
  std::vector<std::string> names;
  names.reserve(pids.size());
  for (const int64_t pid : pids) names.push_back(absl::StrCat(pid));
  return JoinAtMost(names, kMaxGpuPidsNamed);
}

}  // namespace

void GpuRelease::Begin(BootTime now, Effects* out) {
  since_ = now;
  ask_at_ = absl::InfiniteFuture();
  out->push_back(AskGpus{});
}

void GpuRelease::OnTick(BootTime now, Effects* out) {
  if (now < ask_at_) return;
  ask_at_ = absl::InfiniteFuture();
  out->push_back(AskGpus{});
}

GpuRelease::Answer GpuRelease::OnUsers(BootTime now, const GpuUsers& users, std::string* held, Effects* out) {
  if (!users.trouble.empty()) {
    AssumeFree(users.trouble, out);
    return Free();
  }
  const std::set<int64_t> holders = Holders(users);
  if (holders.empty()) return Free();
  if (now - since_ < limit()) {
    ask_at_ = now + kGpuPoll;
    return Answer::kAwaited;
  }
  if (!driver_pids_) {
    AcceptStrangers(holders, out);
    return Free();
  }
  *held = absl::StrCat(holders.size() == 1 ? "pid " : "pids ", Names(holders));
  return Answer::kHeld;
}

// In its own PID namespace a node cannot know which of the driver's pids were its workers. There every listed
// process may be one, for a limited time; a process that stays longer belongs to another job, as on a shared GPU,
// and is not waited for again. The node stays fit in that case.
std::set<int64_t> GpuRelease::Holders(const GpuUsers& users) const {
  std::set<int64_t> holders = users.old_workers;
  if (driver_pids_) return holders;
  holders.insert(users.others.begin(), users.others.end());
  for (const int64_t stranger : strangers_) holders.erase(stranger);
  return holders;
}

void GpuRelease::AssumeFree(const std::string& trouble, Effects* out) {
  if (std::exchange(said_it_cannot_list_, true)) return;
  Say(Severity::kWarning,
      absl::StrCat("cannot find out which processes hold the GPUs, so the GPUs are assumed to be free: ", trouble),
      out);
}

void GpuRelease::AcceptStrangers(const std::set<int64_t>& pids, Effects* out) {
  Say(Severity::kInfo,
      absl::StrCat("unknown processes hold GPUs (pids as the driver numbers them: ", Names(pids),
                   "); assuming that they belong to other jobs"),
      out);
  strangers_.insert(pids.begin(), pids.end());
}

GpuRelease::Answer GpuRelease::Free() {
  may_be_held_ = false;
  return Answer::kFree;
}

}  // namespace muster::host
