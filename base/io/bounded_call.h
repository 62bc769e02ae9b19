// Calls a function that may block for ever in a file system, and waits for it for a limited time, or not at all.
#pragma once

#include <future>
#include <memory>
#include <optional>
#include <utility>

#include "absl/time/time.h"
#include "base/io/thread.h"

namespace muster {

// Runs call() on a thread of its own; its result appears in the future, which can be dropped at any time: the
// thread then continues and owns what it captured. nullopt: no thread can be started, and nothing was called.
template <typename Call>
auto CallAside(Call call) -> std::optional<std::future<decltype(call())>> {
  const auto task = std::make_shared<std::packaged_task<decltype(call())()>>(std::move(call));
  auto thread = StartThread([task] { (*task)(); });
  if (!thread.ok()) return std::nullopt;
  thread->detach();
  return task->get_future();
}

// Runs call() on a thread of its own and returns its result; nullopt: it took longer than `limit`. Its thread then
// continues and owns what it captured. If no thread can be started, the call runs on this one without a limit: in
// that situation a worker's error file is needed most, and a hanging file system is the rarer problem.
template <typename Call>
auto CallWithin(absl::Duration limit, Call call) -> std::optional<decltype(call())> {
  auto result = CallAside(call);
  if (!result) return call();
  if (result->wait_for(absl::ToChronoMilliseconds(limit)) != std::future_status::ready) return std::nullopt;
  return result->get();
}

}  // namespace muster
