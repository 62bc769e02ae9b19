// The effects that a core brought about, by kind.
#pragma once

#include <variant>
#include <vector>

namespace muster {

// Those of one kind, in their order.
template <typename T, typename Effects>
std::vector<T> AllOf(const Effects& effects) {
  std::vector<T> found;
  for (const auto& effect : effects) {
    if (const T* const one = std::get_if<T>(&effect)) found.push_back(*one);
  }
  return found;
}

}  // namespace muster
