// What happened to this job, for people and their programs (`muster events`): nothing is decided by it. A few
// members get copies, and a coordinator after this one has them from these. Pure.
#pragma once

#include <google/protobuf/repeated_ptr_field.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string_view>
#include <vector>

#include "base/core/time.h"
#include "muster/v1/control.pb.h"
#include "muster/v1/rendezvous.pb.h"

namespace muster::rendezvous {

inline constexpr int kMaxEventsKept = 1'000;  // the newest
inline constexpr size_t kMaxEventText = 512;  // bytes
inline constexpr int kEventsPerDirective = 16;
inline constexpr uint64_t kMaxEventsCopied = 128;  // the newest, to each holder
inline constexpr int kEventHolders = 4;            // the members of the first ranks that are in other processes

// The names of a job's events, of namespace events.
const std::vector<std::string_view>& JobEvents();
bool IsJobEvent(std::string_view name);

class EventBook {
 public:
  using Events = google::protobuf::RepeatedPtrField<v1::Event>;

  // This coordinator, in this epoch, has seen it.
  void Add(BootTime now, const v1::Epoch& epoch, v1::Event event);
  // A node has held it since an earlier coordinator. What is known already is left out.
  void Adopt(BootTime now, const Events& held);

  // Numbers of this coordinator's own.
  uint64_t last() const { return last_; }
  // Copies of its own, after this number, so many; returns the number of the last one of them.
  uint64_t CopyAfter(BootTime now, uint64_t number, int most, Events* out) const;
  v1::Events ToMessage(BootTime now) const;  // all, the oldest first

 private:
  struct Kept {
    BootTime at;
    v1::Event event;
    bool is_own = false;
  };

  static v1::Event Aged(BootTime now, const Kept& kept);

  std::deque<Kept> kept_;  // by time
  uint64_t last_ = 0;
};

}  // namespace muster::rendezvous
