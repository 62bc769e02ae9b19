#include "agent/host/core/file_timer.h"

#include <algorithm>
#include <cmath>
#include <csignal>
#include <limits>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"

namespace muster::host {
namespace {

constexpr double kMaxTime = 1e11;  // seconds since the epoch

template <typename T>
bool Within(const nlohmann::json& number, T low, T high) {
  if (!number.is_number()) return false;
  const double value = number.get<double>();
  return value >= static_cast<double>(low) && value <= static_cast<double>(high);
}

}  // namespace

absl::StatusOr<TimerMessage> ParseTimerMessage(std::string_view line) {
  const auto json = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return absl::InvalidArgumentError("not a JSON object");
  const auto pid = json.find("pid");
  const auto scope = json.find("scope_id");
  const auto time = json.find("expiration_time");
  const auto signal = json.find("signal");
  TimerMessage message;
  if (pid == json.end() || !pid->is_number_integer() || !Within(*pid, 1, std::numeric_limits<int32_t>::max())) {
    return absl::InvalidArgumentError("no pid");
  }
  if (scope == json.end() || !scope->is_string()) return absl::InvalidArgumentError("no scope_id");
  if (time == json.end() || !Within(*time, -kMaxTime, kMaxTime)) {
    return absl::InvalidArgumentError("no expiration_time");
  }
  message.pid = pid->get<int64_t>();
  message.scope = scope->get<std::string>();
  message.release = time->get<double>() < 0;
  message.expires = absl::UnixEpoch() + absl::Seconds(time->get<double>());
  message.signal = SIGKILL;
  if (signal != json.end()) {
    if (!signal->is_number_integer() || !Within(*signal, std::numeric_limits<int32_t>::min(), SIGRTMAX)) {
      return absl::InvalidArgumentError("not a signal number of this system");
    }
    message.signal = signal->get<int>();
  }
  return message;
}

std::vector<std::string> TimerLines::Feed(std::string_view bytes) {
  std::vector<std::string> lines;
  while (!bytes.empty()) {
    const size_t end = bytes.find('\n');
    const std::string_view part = bytes.substr(0, end);
    if (!skipping_ && pending_.size() + part.size() > kMaxTimerMessage) {
      skipping_ = true;
      ++too_long_;
      pending_.clear();
    }
    if (!skipping_) pending_ += part;
    if (end == std::string_view::npos) return lines;
    if (!skipping_ && !pending_.empty()) lines.push_back(std::move(pending_));
    pending_.clear();
    skipping_ = false;
    bytes.remove_prefix(end + 1);
  }
  return lines;
}

absl::Status FileTimer::Take(const TimerMessage& message, const TimerOwner& owner) {
  const std::pair<int64_t, std::string> key(message.pid, message.scope);
  if (message.release) {
    timers_.erase(key);
    return absl::OkStatus();
  }
  if (timers_.size() >= kMaxTimers && timers_.count(key) == 0) {
    return absl::ResourceExhaustedError(absl::StrCat("there are ", kMaxTimers, " timers already"));
  }
  timers_[key] = Timer{message, owner};
  return absl::OkStatus();
}

FileTimer::Due FileTimer::Look(absl::Time wall_now, BootTime now) {
  Due due;
  std::map<int64_t, std::vector<const Timer*>> expired;
  for (const auto& [key, timer] : timers_) {
    if (timer.message.expires <= wall_now) expired[key.first].push_back(&timer);
  }
  for (auto& [pid, timers] : expired) {
    std::stable_sort(timers.begin(), timers.end(),
                     [](const Timer* a, const Timer* b) { return a->message.expires < b->message.expires; });
    const auto with_signal =
        std::find_if(timers.begin(), timers.end(), [](const Timer* timer) { return timer->message.signal > 0; });
    const Timer& first = with_signal == timers.end() ? *timers.front() : **with_signal;
    due.expired.push_back({pid, first.owner, first.message.scope, first.message.signal});
    if (first.message.signal > 0) signalled_.emplace(first.owner.local_rank, now + kTimerGrace);
  }
  for (const ExpiredTimer& timer : due.expired) ProcessEnded(timer.pid);
  for (auto it = signalled_.begin(); it != signalled_.end();) {
    if (now < it->second) {
      ++it;
      continue;
    }
    due.outlived.push_back(it->first);
    it = signalled_.erase(it);
  }
  return due;
}

void FileTimer::ProcessEnded(int64_t pid) {
  std::erase_if(timers_, [pid](const auto& entry) { return entry.first.first == pid; });
}

void FileTimer::WorkerEnded(int local_rank) {
  signalled_.erase(local_rank);
  std::erase_if(timers_, [local_rank](const auto& entry) { return entry.second.owner.local_rank == local_rank; });
}

std::vector<int64_t> FileTimer::pids() const {
  std::vector<int64_t> pids;
  for (const auto& [key, timer] : timers_) {
    if (pids.empty() || pids.back() != key.first) pids.push_back(key.first);
  }
  return pids;
}

}  // namespace muster::host
