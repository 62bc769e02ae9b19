// A map that counts the elements that loops over it may have visited. Tests use it to compare the work of one
// event in jobs of N and 2N nodes without measuring time.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace muster::rendezvous {

template <typename Value>
class CountedMap : public std::map<std::string, Value> {
  using Base = std::map<std::string, Value>;

 public:
  // Called once per loop. A loop that ends early counts as a full one.
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
