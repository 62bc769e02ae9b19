#include "rendezvous/transport/completion_thread.h"

#include <utility>

#include "base/io/thread.h"

namespace muster::rendezvous {

CompletionThread::CompletionThread(std::unique_ptr<grpc::CompletionQueue> queue, Post post)
    : queue_(std::move(queue)), post_(std::move(post)) {
  absl::StatusOr<std::thread> thread = StartThread([this] { Work(); });
  status_ = thread.status();
  if (thread.ok()) thread_ = *std::move(thread);
}

CompletionThread::~CompletionThread() { Join(); }

void CompletionThread::Join() {
  if (joined_) return;
  joined_ = true;
  queue_->Shutdown();
  if (thread_.joinable()) {
    thread_.join();
  } else {
    Work();  // gRPC requires that a queue is drained
  }
  alive_.reset();
}

void CompletionThread::Work() {
  void* raw = nullptr;
  bool ok = false;
  while (queue_->Next(&raw, &ok)) {
    post_([guard = guard_, tag = static_cast<Tag*>(raw), ok] {
      if (guard.lock() != nullptr) tag->done(ok);
    });
  }
}

}  // namespace muster::rendezvous
