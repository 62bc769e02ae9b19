// What coordinators have said of the job's events, for one after them that knows nothing. Pure.
#pragma once

#include <google/protobuf/repeated_ptr_field.h>

#include <cstddef>
#include <deque>
#include <utility>

#include "base/core/time.h"
#include "muster/v1/rendezvous.pb.h"

namespace muster::agent {

// The newest. All that are held go into one status, which has at most 1 MiB.
inline constexpr size_t kMaxEventsHeld = 128;
inline constexpr size_t kMaxHeldBytes = 64 * 1024;

class HeldEvents {
 public:
  void Learn(BootTime now, const v1::Directive& directive);
  void AddTo(BootTime now, google::protobuf::RepeatedPtrField<v1::Event>* events) const;

 private:
  std::deque<std::pair<BootTime, v1::Event>> held_;  // the oldest first
  size_t bytes_ = 0;
};

}  // namespace muster::agent
