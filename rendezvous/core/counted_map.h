// A map that counts how many elements loops over it may have visited. With it tests compare the work of one event
// in a job of N nodes with that of 2N, without measuring time.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace muster::rendezvous {

template <typename Value>
class CountedMap : public std::map<std::string, Value> {
  using Base = std::map<std::string, Value>;

 public:
  // Every loop begins here. One that ends early counts as a whole.
  typename Base::iterator begin() {
    visits_ += Base::size();
    return Base::begin();
  }
  typename Base::const_iterator begin() const {
    visits_ += Base::size();
    return Base::begin();
  }

  uint64_t visits() const { return visits_; }

 private:
  mutable uint64_t visits_ = 0;
};

}  // namespace muster::rendezvous
