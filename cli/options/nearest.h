// Suggestions for mistyped words. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace muster::cli {

// The word of `known` with the smallest edit distance from `word` (insertion, deletion, substitution,
// transposition); the first of several. Empty if none is near enough, or if `word` is one of them.
std::string NearestWord(std::string_view word, const std::vector<std::string>& known);

}  // namespace muster::cli
