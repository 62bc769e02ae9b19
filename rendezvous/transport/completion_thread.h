// A gRPC completion queue and the thread that drains it. The thread decides nothing: it posts each completed
// operation to the loop thread.
//
// gRPC's callback API is not used because it answers up to 100 ms late in an idle process.
#pragma once

#include <grpcpp/completion_queue.h>

#include <functional>
#include <memory>
#include <thread>

#include "absl/status/status.h"
#include "rendezvous/transport/post.h"

namespace muster::rendezvous {

// Identifies an operation to gRPC. Must live until the operation is completed. `done` runs on the loop thread.
struct Tag {
  std::function<void(bool ok)> done;
};

// Lives on the loop thread.
class CompletionThread {
 public:
  CompletionThread(std::unique_ptr<grpc::CompletionQueue> queue, Post post);
  ~CompletionThread();  // Join()

  // Not OK: the thread could not be started. No operation may be started on the queue.
  const absl::Status& status() const { return status_; }

  CompletionThread(const CompletionThread&) = delete;
  CompletionThread& operator=(const CompletionThread&) = delete;

  grpc::CompletionQueue* queue() { return queue_.get(); }

  // Waits until all operations are completed. Cancel them before, and start no more. Afterwards no `done` runs,
  // and tags may be destroyed.
  void Join();

 private:
  void Work();

  const std::unique_ptr<grpc::CompletionQueue> queue_;
  const Post post_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);  // for posted closures; loop thread only
  std::weak_ptr<bool> guard_ = alive_;  // copied by the queue's thread; not written after construction
  absl::Status status_;
  bool joined_ = false;
  std::thread thread_;
};

}  // namespace muster::rendezvous
