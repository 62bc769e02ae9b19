// Bounds what a peer may make an HTTP/2 server or client do: gRPC 1.51 limits neither the size of a header block
// spread over many frames (CVE-2023-33953) nor the number of streams that are opened and reset (CVE-2023-44487),
// and has no patch for either. A frame's header of 9 bytes (RFC 9113, section 4.1) is all that must be read for
// that.
//
// An agent opens one stream for each connection, so the bounds are far above what it needs. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "base/core/allowance.h"
#include "base/core/time.h"

namespace muster::rendezvous {

inline constexpr size_t kMaxHeaderBlockBytes = 16 * 1024;  // gRPC accepts 8 KiB of headers
inline constexpr int kMaxHeaderBlocks = 4;                 // in the life of a connection
inline constexpr int kMaxStreamResets = 8;                 // in the life of a connection
inline constexpr size_t kMaxVisitorBytes = 512 * 1024;  // before an agent is admitted; its first status is smaller
// The part of it that each may send whatever the others do, and what all that are not admitted may send beyond it.
inline constexpr size_t kOwnVisitorBytes = 32 * 1024;
inline constexpr size_t kSharedVisitorBytes = 16 << 20;
inline constexpr int kFrameBurst = 4'000;       // a status of the greatest size has 64
inline constexpr int kFramesPerSecond = 1'000;  // an agent sends at most some 200
inline constexpr std::string_view kPreface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";  // what a client sends first

// What the connections of one port on which no agent is admitted have sent beyond their own parts. If it is too
// much, whoever has sent most of it must leave. Used by one thread.
class VisitorBytes {
 public:
  // evict: closes that connection; called from within another one's Resize.
  explicit VisitorBytes(std::function<void(uint64_t connection)> evict) : evict_(std::move(evict)) {}

  // Makes the connection's part that large; 0: it has none any more. False: no other one has a larger part.
  bool Resize(uint64_t connection, size_t bytes);
  size_t left() const { return left_; }

 private:
  void Set(uint64_t connection, size_t bytes);

  const std::function<void(uint64_t connection)> evict_;
  size_t left_ = kSharedVisitorBytes;
  std::map<uint64_t, size_t> parts_;
  std::set<std::pair<size_t, uint64_t>> by_size_;
};

class FrameGuard {
 public:
  // Guards a server. shared: outlives it. connection: its name there.
  FrameGuard(VisitorBytes* shared, uint64_t connection) : shared_(shared), connection_(connection) {}
  // Guards a client. Its server sends no preface, and as many bytes as the client takes.
  FrameGuard() : shared_(nullptr), connection_(0), preface_(kPreface.size()), trusted_(true) {}
  ~FrameGuard() { Trust(); }
  FrameGuard(const FrameGuard&) = delete;
  FrameGuard& operator=(const FrameGuard&) = delete;

  // The bytes that the peer has sent, a client its preface first, in pieces of any size. Errors: InvalidArgument:
  // that is not HTTP/2. ResourceExhausted: it exceeds a limit. After an error every call returns that error.
  absl::Status Check(BootTime now, std::string_view bytes);

  void Trust();  // the peer is no stranger any more
  bool has_preface() const { return preface_ == kPreface.size(); }

 private:
  absl::Status Examine(BootTime now, std::string_view bytes);
  absl::Status CountBytes(size_t bytes);
  absl::Status CheckPreface(std::string_view* bytes);
  absl::Status BeginFrame(BootTime now);
  absl::Status CountFrame(BootTime now);

  VisitorBytes* const shared_;
  const uint64_t connection_;
  size_t preface_ = 0;      // bytes of it that have come
  std::string header_;      // of the current frame; complete: kHeaderBytes
  uint32_t left_ = 0;       // bytes of the frame's payload that have not come
  size_t block_bytes_ = 0;  // of the current header block
  int blocks_ = 0;
  size_t bytes_ = 0;  // until an agent was admitted
  bool trusted_ = false;
  int resets_ = 0;
  Allowance frames_{kFrameBurst, kFramesPerSecond};
  absl::Status status_;
};

}  // namespace muster::rendezvous
