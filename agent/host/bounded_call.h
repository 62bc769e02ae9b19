// A call that a file system may keep for ever, waited for on a thread that must go on.
#pragma once

#include <future>
#include <optional>
#include <utility>

#include "absl/time/time.h"
#include "proto/base/thread.h"

namespace muster::host {

// What call() returns; nullopt: it took longer than the limit (its thread goes on, and owns what it captured), or
// there is no thread for it.
template <typename Call>
auto CallWithin(absl::Duration limit, Call call) -> std::optional<decltype(call())> {
  std::packaged_task<decltype(call())()> task(std::move(call));
  auto result = task.get_future();
  auto thread = StartThread(std::move(task));
  if (!thread.ok()) return std::nullopt;
  thread->detach();
  if (result.wait_for(absl::ToChronoMilliseconds(limit)) != std::future_status::ready) return std::nullopt;
  return result.get();
}

}  // namespace muster::host
