// A call that a file system may keep for ever, waited for on a thread that must go on.
#pragma once

#include <future>
#include <memory>
#include <optional>
#include <utility>

#include "absl/time/time.h"
#include "base/thread.h"

namespace muster {

// What call() returns; nullopt: it took longer than the limit (its thread goes on, and owns what it captured).
// Where the machine gives no thread it is called on this one, without a limit: that is when a worker's word of why
// it failed is needed most, and a file system that does not answer is rarer.
template <typename Call>
auto CallWithin(absl::Duration limit, Call call) -> std::optional<decltype(call())> {
  const auto task = std::make_shared<std::packaged_task<decltype(call())()>>(std::move(call));
  auto result = task->get_future();
  auto thread = StartThread([task] { (*task)(); });
  if (!thread.ok()) {
    (*task)();
    return result.get();
  }
  thread->detach();
  if (result.wait_for(absl::ToChronoMilliseconds(limit)) != std::future_status::ready) return std::nullopt;
  return result.get();
}

}  // namespace muster
