#include "rendezvous/transport/process_start.h"

#include <sys/random.h>
#include <sys/resource.h>

#include <atomic>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "base/core/check.h"
#include "base/core/status_macros.h"
#include "base/io/thread.h"
#include "rendezvous/transport/channel_options.h"

namespace muster::rendezvous {
namespace {

constexpr int kGrpcThreads = 8;  // threads that gRPC starts without checking for errors

}  // namespace

uint64_t Entropy() {
  uint64_t value = 0;
  MUSTER_CHECK(getrandom(&value, sizeof(value), 0) == sizeof(value), "the kernel gives no random numbers");
  return value;
}

void RaiseDescriptorLimit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == limit.rlim_max) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

absl::Status CheckThreadsForGrpc() {
  std::atomic<bool> done = false;
  std::vector<std::thread> threads;
  absl::Status status;
  while (status.ok() && static_cast<int>(threads.size()) < kGrpcThreads) {
    absl::StatusOr<std::thread> thread = StartThread([&done] { done.wait(false); });
    status = thread.status();
    if (thread.ok()) threads.push_back(*std::move(thread));
  }
  done = true;
  done.notify_all();
  for (std::thread& thread : threads) thread.join();
  return status;
}

absl::Status PrepareForGrpc() {
  RETURN_IF_ERROR(CheckThreadsForGrpc());
  RaiseDescriptorLimit();
  SanitizeGrpcEnvironment();
  return absl::OkStatus();
}

}  // namespace muster::rendezvous
