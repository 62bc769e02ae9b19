#include "rendezvous/gate/frame_guard.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace muster::rendezvous {
namespace {

constexpr size_t kHeaderBytes = 9;  // length 3, type 1, flags 1, stream 4
constexpr size_t kTypeAt = 3;

enum FrameType : uint8_t { kHeaders = 1, kResetStream = 3, kPushPromise = 5, kContinuation = 9 };

uint8_t ByteAt(std::string_view bytes, size_t at) { return static_cast<uint8_t>(bytes[at]); }

absl::Status TooMuch(const std::string& what) {
  return absl::ResourceExhaustedError(absl::StrCat("it sent ", what));
}

}  // namespace

bool VisitorBytes::Resize(uint64_t connection, size_t bytes) {
  const auto part = parts_.find(connection);
  const size_t before = part == parts_.end() ? 0 : part->second;
  while (bytes > before + left_) {
    const auto [most, who] = *by_size_.rbegin();
    if (who == connection || most <= bytes) return false;
    Set(who, 0);
    evict_(who);
  }
  Set(connection, bytes);
  return true;
}

void VisitorBytes::Set(uint64_t connection, size_t bytes) {
  size_t& part = parts_[connection];
  by_size_.erase({part, connection});
  left_ = left_ + part - bytes;
  part = bytes;
  if (bytes > 0) {
    by_size_.emplace(bytes, connection);
  } else {
    parts_.erase(connection);
  }
}

absl::Status FrameGuard::Check(BootTime now, std::string_view bytes) {
  if (status_.ok()) status_ = Examine(now, bytes);
  return status_;
}

absl::Status FrameGuard::Examine(BootTime now, std::string_view bytes) {
  if (absl::Status status = CheckPreface(&bytes); !status.ok()) return status;
  if (absl::Status status = CountBytes(bytes.size()); !status.ok()) return status;
  while (!bytes.empty()) {
    if (header_.size() < kHeaderBytes) {
      const size_t taken = std::min(kHeaderBytes - header_.size(), bytes.size());
      header_ += bytes.substr(0, taken);
      bytes.remove_prefix(taken);
      if (header_.size() < kHeaderBytes) break;
      if (absl::Status status = BeginFrame(now); !status.ok()) return status;
    }
    const size_t taken = std::min<size_t>(left_, bytes.size());
    bytes.remove_prefix(taken);
    left_ -= static_cast<uint32_t>(taken);
    if (left_ == 0) header_.clear();
  }
  return absl::OkStatus();
}

// gRPC keeps a message until it is complete, however long it says that it is.
absl::Status FrameGuard::CountBytes(size_t bytes) {
  if (trusted_) return absl::OkStatus();
  bytes_ += bytes;
  if (bytes_ > kMaxVisitorBytes) {
    return TooMuch(absl::StrCat("more than ", kMaxVisitorBytes, " bytes before it was admitted"));
  }
  const size_t beyond = bytes_ - std::min(bytes_, kOwnVisitorBytes);
  if (!shared_->Resize(connection_, beyond)) {
    return TooMuch(
        absl::StrCat("more than ", kOwnVisitorBytes, " bytes before it was admitted, while others did so, too"));
  }
  return absl::OkStatus();
}

void FrameGuard::Trust() {
  trusted_ = true;
  if (shared_ != nullptr) (void)shared_->Resize(connection_, 0);  // a smaller part is always possible
}

absl::Status FrameGuard::CheckPreface(std::string_view* bytes) {
  const size_t taken = std::min(kPreface.size() - preface_, bytes->size());
  if (bytes->substr(0, taken) != kPreface.substr(preface_, taken)) {
    return absl::InvalidArgumentError("it does not speak HTTP/2");
  }
  preface_ += taken;
  bytes->remove_prefix(taken);
  return absl::OkStatus();
}

absl::Status FrameGuard::BeginFrame(BootTime now) {
  left_ = static_cast<uint32_t>(ByteAt(header_, 0) << 16 | ByteAt(header_, 1) << 8 | ByteAt(header_, 2));
  if (absl::Status status = CountFrame(now); !status.ok()) return status;
  switch (ByteAt(header_, kTypeAt)) {
    case kHeaders:
      block_bytes_ = 0;
      if (++blocks_ > kMaxHeaderBlocks) return TooMuch(absl::StrCat("more than ", kMaxHeaderBlocks, " requests"));
      [[fallthrough]];
    case kContinuation:
      block_bytes_ += left_;
      if (block_bytes_ > kMaxHeaderBlockBytes) {
        return TooMuch(absl::StrCat("headers of more than ", kMaxHeaderBlockBytes, " bytes"));
      }
      break;
    case kResetStream:
      if (++resets_ > kMaxStreamResets) {
        return TooMuch(absl::StrCat("more than ", kMaxStreamResets, " cancellations"));
      }
      break;
    case kPushPromise:
      return absl::InvalidArgumentError("it sent a frame that neither gRPC's clients nor its servers send");
    default:
      break;
  }
  return absl::OkStatus();
}

absl::Status FrameGuard::CountFrame(BootTime now) {
  if (frames_.Take(now)) return absl::OkStatus();
  return TooMuch(absl::StrCat("more than ", kFramesPerSecond, " frames a second"));
}

}  // namespace muster::rendezvous
