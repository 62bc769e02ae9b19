// A status as it comes from the network: what is read is bounded, and reads the same when it is written again.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/core/check.h"
#include "base/wire/ranges.h"
#include "rendezvous/transport/received_status.h"

using muster::OutOfRange;
using muster::rendezvous::ReadStatus;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto status = ReadStatus({reinterpret_cast<const char*>(data), size});
  if (!status.ok()) return 0;
  (void)OutOfRange(*status);
  const std::string again = status->SerializeAsString();
  const auto read = ReadStatus(again);
  MUSTER_CHECK(read.ok(), "what was accepted is accepted again");
  MUSTER_CHECK(read->ByteSizeLong() == again.size(), "nothing is lost");
  return 0;
}
