// One gRPC completion queue and the one thread that empties it. The thread decides nothing: it hands each
// completed operation to the loop thread.
//
// A queue and thread of our own, because gRPC's callback API answers up to 100 ms late in an idle process.
#pragma once

#include <grpcpp/completion_queue.h>

#include <functional>
#include <memory>
#include <thread>

#include "absl/status/status.h"
#include "rendezvous/transport/post.h"

namespace muster::rendezvous {

// What gRPC gives back when an operation is done. Lives at least until then. `done` runs on the loop thread.
struct Tag {
  std::function<void(bool ok)> done;
};

// Lives on the loop thread.
class CompletionThread {
 public:
  CompletionThread(std::unique_ptr<grpc::CompletionQueue> queue, Post post);
  ~CompletionThread();  // Join()

  // Not OK: the machine gave no thread. Nothing may be begun on the queue.
  const absl::Status& status() const { return status_; }

  CompletionThread(const CompletionThread&) = delete;
  CompletionThread& operator=(const CompletionThread&) = delete;

  grpc::CompletionQueue* queue() { return queue_.get(); }

  // Waits until every operation begun is completed; so they must have been cancelled, and no more may be begun.
  // After it no `done` runs any more, and tags may be destroyed.
  void Join();

 private:
  void Work();

  const std::unique_ptr<grpc::CompletionQueue> queue_;
  const Post post_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);  // posted closures outlive us; loop thread only
  std::weak_ptr<bool> guard_ = alive_;  // copied by the queue's thread; never written after construction
  absl::Status status_;
  bool joined_ = false;
  std::thread thread_;
};

}  // namespace muster::rendezvous
