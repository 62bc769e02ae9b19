// A FIFO of bytes; taking bytes from the front is cheap. Thread-compatible.
#pragma once

#include <string>
#include <string_view>

namespace muster {

class ByteQueue {
 public:
  size_t size() const { return bytes_.size() - head_; }
  bool empty() const { return size() == 0; }
  std::string_view front(size_t most) const { return std::string_view(bytes_).substr(head_, most); }

  void Push(std::string_view bytes) {
    // Removes the consumed bytes once they are more than half of all, so that each byte is moved at most once.
    if (head_ > bytes_.size() / 2) Compact();
    bytes_ += bytes;
  }
  void PushFront(std::string_view bytes) {
    Compact();
    bytes_.insert(0, bytes);
  }
  void Pop(size_t count) {
    head_ += count;
    if (head_ >= bytes_.size()) Clear();
  }
  void Clear() {
    bytes_.clear();
    head_ = 0;
  }
  void Shrink() { bytes_.shrink_to_fit(); }

 private:
  void Compact() {
    bytes_.erase(0, head_);
    head_ = 0;
  }

  std::string bytes_;
  size_t head_ = 0;
};

}  // namespace muster
