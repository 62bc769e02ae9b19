// What a client sends, in the pieces in which it arrives: the pieces change nothing, and what passes is within
// bounds.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/core/check.h"
#include "rendezvous/gate/frame_guard.h"

using muster::BootTime;
using muster::rendezvous::FrameGuard;
using muster::rendezvous::VisitorBytes;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const size_t piece = data[0] + 1u;
  // Most inputs would end at the preface.
  std::string bytes = data[0] % 8 == 0 ? "" : std::string(muster::rendezvous::kPreface);
  bytes.append(reinterpret_cast<const char*>(data) + 1, size - 1);

  const BootTime now = absl::UnixEpoch();
  const auto nobody = [](uint64_t) { MUSTER_CHECK(false, "nobody else is here"); };
  VisitorBytes shared_by_whole(nobody), shared_by_pieces(nobody);
  FrameGuard whole(&shared_by_whole, 1), pieces(&shared_by_pieces, 1);
  const absl::Status expected = whole.Check(now, bytes);
  absl::Status got;
  for (size_t at = 0; at < bytes.size() && got.ok(); at += piece) {
    got = pieces.Check(now, std::string_view(bytes).substr(at, piece));
  }
  MUSTER_CHECK(got == expected, "the same bytes, the same answer");
  MUSTER_CHECK(pieces.Check(now, "") == expected, "an error is final");
  whole.Trust();
  MUSTER_CHECK(shared_by_whole.left() == muster::rendezvous::kSharedVisitorBytes, "what was taken is given back");
  return 0;
}
