#include "cli/status/door_visits.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "agent/process/door.h"
#include "base/core/status_macros.h"
#include "base/io/event_loop.h"
#include "base/io/frame_exchange.h"
#include "base/io/local_door.h"
#include "base/text/text.h"

namespace muster::cli {
namespace {

constexpr size_t kMaxAnswerBytes = 4 * 1024 * 1024;

absl::StatusOr<v1::Answer> Visit(const std::string& door, const v1::Question& question, absl::Duration limit) {
  ASSIGN_OR_RETURN(const OwnedFd fd, KnockAtDoor(door));
  RETURN_IF_ERROR(SendFrame(fd.get(), question));
  IncomingFrame frame(kMaxAnswerBytes);
  RETURN_IF_ERROR(AwaitFrame(fd.get(), limit, &frame));
  v1::Answer answer;
  if (!answer.ParseFromArray(frame.payload().data(), static_cast<int>(frame.payload().size())))
    return absl::InvalidArgumentError("the answer is not understood");
  return answer;
}

}  // namespace

std::vector<JobHere> JobsHere() {
  v1::Question question;
  question.set_names_only(true);
  const BootTime until = EventLoop::Now() + kNamesLimit;
  std::map<std::pair<std::string, std::string>, std::vector<std::string>> doors;
  for (const std::string& door : DoorsHere(agent::kDoorPrefix)) {
    const absl::Duration left = until - EventLoop::Now();
    if (left <= absl::ZeroDuration()) break;
    const absl::StatusOr<v1::Answer> answer = Visit(door, question, std::min(left, kNameLimit));
    if (answer.ok()) doors[{answer->run_id(), answer->coordinator()}].push_back(door);
  }
  std::vector<JobHere> jobs;
  for (auto& [job, of_job] : doors) jobs.push_back({job.first, job.second, std::move(of_job)});
  return jobs;
}

absl::StatusOr<v1::JobView> ViewOf(const JobHere& job) {
  std::string why = "no node of it is here any more";
  for (const std::string& door : job.doors) {
    const absl::StatusOr<v1::Answer> answer = Visit(door, v1::Question(), kViewLimit);
    if (answer.ok() && answer->has_view()) return answer->view();
    why = answer.ok() ? OneLine(answer->why_not()) : std::string(AsStd(answer.status().message()));
  }
  return absl::UnavailableError(
      absl::StrCat("the coordinator of ", OneLine(job.run_id), " does not answer: ", why));
}

}  // namespace muster::cli
