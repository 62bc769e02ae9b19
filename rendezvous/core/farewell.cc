#include "rendezvous/core/farewell.h"

namespace muster::rendezvous {

v1::PrimaryEnded Farewell::WordAt(BootTime now) const {
  v1::PrimaryEnded result = word;
  result.set_age_ms(absl::ToInt64Milliseconds(absl::Ceil(now - ended_at, absl::Milliseconds(1))));
  return result;
}

}  // namespace muster::rendezvous
