// What a mistyped word was probably meant to be. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace muster::cli {

// The one of `known` that is fewest letters away from `word` (one more, one less, another, two exchanged); empty
// where none is near enough to be worth a guess, and where `word` is one of them. The first one where several are
// as near.
std::string NearestWord(std::string_view word, const std::vector<std::string>& known);

}  // namespace muster::cli
