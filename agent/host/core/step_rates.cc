#include "agent/host/core/step_rates.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "base/core/status_macros.h"
#include "base/wire/ranges.h"

namespace muster::host {
namespace {

constexpr std::array<std::string_view, 4> kWords = {"step", "iter", "iteration", "batch"};
constexpr size_t kMostBetween = 3;  // characters beside spaces between a word and its number: "=", ": [", "/"
constexpr size_t kMaxDigits = 15;
constexpr int64_t kPeriodS = 1000;  // a rate is the number of steps in so many seconds

bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsLetter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

size_t EndOfDigits(std::string_view line, size_t at) {
  while (at < line.size() && IsDigit(line[at])) ++at;
  return at;
}

// The digits that begin at `at`, as a number; nullopt: it has too many, or is a fraction.
std::optional<int64_t> NumberAt(std::string_view line, size_t at) {
  const size_t end = EndOfDigits(line, at);
  const bool is_fraction =
      end + 1 < line.size() && (line[end] == '.' || line[end] == 'e') && IsDigit(line[end + 1]);
  int64_t number = 0;
  const bool is_number = end - at <= kMaxDigits && absl::SimpleAtoi(AsAbsl(line.substr(at, end - at)), &number);
  return is_number && !is_fraction ? std::optional(number) : std::nullopt;
}

// "step 120": whether the number at `at` follows a word.
bool FollowsWord(std::string_view line, size_t at) {
  size_t end = at;
  for (size_t between = 0; end > 0 && !IsLetter(line[end - 1]) && !IsDigit(line[end - 1]); --end) {
    if (line[end - 1] != ' ' && ++between > kMostBetween) return false;
  }
  size_t begin = end;
  while (begin > 0 && IsLetter(line[begin - 1])) --begin;
  std::string_view word = line.substr(begin, end - begin);
  if (end == at || word.empty()) return false;
  if (word.back() == 's' || word.back() == 'S') word.remove_suffix(1);
  return std::any_of(kWords.begin(), kWords.end(),
                     [word](auto one) { return absl::EqualsIgnoreCase(AsAbsl(word), AsAbsl(one)); });
}

// tqdm's "| 120/1000 [".
bool IsOfABar(std::string_view line, size_t at) {
  if (at < 2 || line[at - 1] != ' ' || line[at - 2] != '|') return false;
  const size_t slash = EndOfDigits(line, at);
  if (slash >= line.size() || line[slash] != '/') return false;
  const size_t end = EndOfDigits(line, slash + 1);
  return end > slash + 1 && line.substr(end, 2) == " [";
}

// The first number of the line for which that holds.
template <typename Is>
std::optional<int64_t> FirstNumber(std::string_view line, Is is) {
  for (size_t at = 0; at < line.size(); ++at) {
    if (!IsDigit(line[at])) continue;
    const std::optional<int64_t> number = NumberAt(line, at);
    if (number && is(line, at)) return number;
    at = EndOfDigits(line, at);
  }
  return std::nullopt;
}

std::optional<int64_t> StepInLine(std::string_view line) {
  const std::optional<int64_t> of_bar = FirstNumber(line, IsOfABar);
  return of_bar ? of_bar : FirstNumber(line, FollowsWord);
}

}  // namespace

std::optional<int64_t> StepIn(std::string_view lines) {
  const std::vector<absl::string_view> split = absl::StrSplit(AsAbsl(lines), absl::ByAnyChar("\r\n"));
  for (auto line = split.rbegin(); line != split.rend(); ++line) {
    if (const std::optional<int64_t> step = StepInLine(AsStd(*line))) return step;
  }
  return std::nullopt;
}

void StepRate::OnNumber(BootTime now, int64_t number) {
  const std::optional<int64_t> before = std::exchange(number_, number);
  if (!before || number != *before) Note(now, before ? std::max<int64_t>(0, number - *before) : 0);
}

void StepRate::Note(BootTime now, int64_t steps) {
  const int64_t before = sightings_.empty() ? 0 : sightings_.back().count;
  sightings_.push_back({now, before + steps});
  while (sightings_.size() > kLeastSightings && sightings_.front().at < now - kRateWindow) sightings_.pop_front();
}

int64_t StepRate::In1000Seconds(BootTime now) const {
  if (sightings_.size() < kLeastSightings) return 0;
  const Sighting& first = sightings_.front();
  const Sighting& last = sightings_.back();
  const absl::Duration seen = last.at - first.at;
  const bool is_late = now - last.at > 2 * seen / static_cast<int64_t>(sightings_.size() - 1);
  const double seconds = absl::ToDoubleSeconds(is_late ? now - first.at : seen);
  if (seconds <= 0) return 0;
  const double rate = static_cast<double>(last.count - first.count) * kPeriodS / seconds;
  return static_cast<int64_t>(std::clamp(rate, 1.0, static_cast<double>(kMaxCount)));
}

StepRates::Worker* StepRates::Find(int local_rank) {
  const bool is_here = local_rank >= 0 && local_rank < std::ssize(workers_);
  return is_here ? &workers_[static_cast<size_t>(local_rank)] : nullptr;
}

void StepRates::OnSeen(BootTime now, const std::vector<StepSeen>& seen) {
  for (const auto& [local_rank, source, number] : seen) {
    Worker* const worker = Find(local_rank);
    if (worker == nullptr) continue;
    StepRate& rate = (*worker)[static_cast<size_t>(source)];
    source == StepSource::kHeartbeat ? rate.OnTouch(now) : rate.OnNumber(now, number);
  }
}

void StepRates::OnEnded(int local_rank) {
  if (Worker* const worker = Find(local_rank)) *worker = {};
}

template <typename Value>
std::vector<int64_t> StepRates::ByRank(Value value_of) const {
  std::vector<int64_t> values;
  for (const Worker& worker : workers_) {
    if (values.size() == kMaxRanksSent) break;
    values.push_back(value_of(worker));
  }
  return values;
}

std::vector<int64_t> StepRates::ByLines() const {
  return ByRank([this](const Worker& worker) {
    return std::max(RateOf(worker, StepSource::kOut), RateOf(worker, StepSource::kErr));
  });
}

std::vector<int64_t> StepRates::Newest() const {
  return ByRank([](const Worker& worker) {
    const StepRate& out = worker[static_cast<size_t>(StepSource::kOut)];
    const StepRate& err = worker[static_cast<size_t>(StepSource::kErr)];
    return (out.changed_at() >= err.changed_at() ? out : err).newest();
  });
}

std::vector<int64_t> StepRates::ByTouches() const {
  return ByRank([this](const Worker& worker) { return RateOf(worker, StepSource::kHeartbeat); });
}

}  // namespace muster::host
