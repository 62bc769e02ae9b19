#include "tests/simulation/environment.h"

#include <algorithm>
#include <iterator>
#include <string_view>
#include <utility>

#include "absl/strings/match.h"

namespace muster::simulation {

Environment::Environment(const Scenario& scenario, TakeLine trace)
    : scenario_(scenario),
      prng_(scenario.seed ^ 0x5EED),
      hardships_(scenario.seed ^ 0x4A2D5),
      trace_(std::move(trace)) {}

void Environment::Note(const char* category, const std::string& text) {
  trace_.Line(now(), category, text);
  static constexpr const char* kDisturbing[] = {"fault", "freeze", "network", "platform", "death"};
  const bool disturbs = std::any_of(std::begin(kDisturbing), std::end(kDisturbing),
                                    [&](const char* what) { return std::string_view(what) == category; });
  if (disturbs && !absl::StartsWith(text, Name(Fault::kWorkerFails))) disturbed_at_ = now();
}

}  // namespace muster::simulation
