#include "rendezvous/completion_thread.h"

#include <utility>

namespace muster::rendezvous {

CompletionThread::CompletionThread(std::unique_ptr<grpc::CompletionQueue> queue, Post post)
    : queue_(std::move(queue)), post_(std::move(post)), thread_([this] { Work(); }) {}

CompletionThread::~CompletionThread() { Join(); }

void CompletionThread::Join() {
  if (!thread_.joinable()) return;
  queue_->Shutdown();
  thread_.join();
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
