#include "cli/status/door_visits.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/core/status_macros.h"
#include "base/io/event_loop.h"
#include "base/io/frame_exchange.h"
#include "base/io/local_door.h"
#include "base/text/text.h"
#include "rendezvous/door.h"

namespace muster::cli {
namespace {

constexpr size_t kMaxAnswerBytes = 4 * 1024 * 1024;
constexpr absl::Duration kKnockAgain = absl::Milliseconds(100);

absl::StatusOr<OwnedFd> Ask(const std::string& door, const v1::Question& question) {
  ASSIGN_OR_RETURN(OwnedFd fd, KnockAtDoor(door));
  RETURN_IF_ERROR(SendFrame(fd.get(), question));
  return fd;
}

absl::StatusOr<v1::Answer> AnswerIn(const IncomingFrame& frame) {
  v1::Answer answer;
  if (!answer.ParseFromArray(frame.payload().data(), static_cast<int>(frame.payload().size())))
    return absl::InvalidArgumentError("the answer is not understood");
  return answer;
}

absl::StatusOr<v1::Answer> Await(const OwnedFd& asked, absl::Duration limit) {
  IncomingFrame frame(kMaxAnswerBytes);
  RETURN_IF_ERROR(AwaitFrame(asked.get(), limit, &frame));
  return AnswerIn(frame);
}

absl::StatusOr<v1::Answer> Visit(const std::string& door, const v1::Question& question, absl::Duration limit) {
  ASSIGN_OR_RETURN(const OwnedFd asked, Ask(door, question));
  return Await(asked, limit);
}

using JobsByName = std::map<std::pair<std::string, std::string>, JobHere>;  // by id and coordinator

// `muster coordinator` names its port alone, ":29400": the nodes that name that port at some host are of its job,
// unless there are several such jobs.
void JoinSeparateCoordinators(JobsByName* jobs) {
  for (auto separate = jobs->begin(); separate != jobs->end();) {
    const auto& [run_id, port] = separate->first;
    const auto same = [&, run = run_id, end = port](const auto& other) {
      return other.first.first == run && other.first.second != end && absl::EndsWith(other.first.second, end);
    };
    const bool joins = absl::StartsWith(port, ":") && std::count_if(jobs->begin(), jobs->end(), same) == 1;
    if (!joins) {
      ++separate;
      continue;
    }
    JobHere& job = std::find_if(jobs->begin(), jobs->end(), same)->second;
    job.doors.insert(job.doors.end(), separate->second.doors.begin(), separate->second.doors.end());
    job.pids.insert(job.pids.end(), separate->second.pids.begin(), separate->second.pids.end());
    separate = jobs->erase(separate);
  }
}

}  // namespace

// All doors are asked before any is awaited: those of frozen agents cost their time once, however many there are.
std::vector<JobHere> JobsHere() {
  v1::Question question;
  question.set_kind(v1::Question::KIND_NAME);
  std::vector<std::pair<std::string, OwnedFd>> asked;
  for (const std::string& door : DoorsHere(rendezvous::kDoorPrefix)) {
    absl::StatusOr<OwnedFd> fd = Ask(door, question);
    if (fd.ok()) asked.emplace_back(door, *std::move(fd));
  }
  const BootTime until = EventLoop::Now() + kNameLimit;
  JobsByName named;
  for (const auto& [door, fd] : asked) {
    const absl::StatusOr<v1::Answer> answer = Await(fd, until - EventLoop::Now());
    if (!answer.ok()) continue;
    JobHere& job = named[{answer->run_id(), answer->coordinator()}];
    job.run_id = answer->run_id();
    job.coordinator = answer->coordinator();
    job.doors.push_back(door);
    if (const pid_t pid = PeerOf(fd.get()); pid > 0) job.pids.push_back(pid);
  }
  JoinSeparateCoordinators(&named);
  std::vector<JobHere> jobs;
  for (auto& [name, job] : named) jobs.push_back(std::move(job));
  return jobs;
}

absl::StatusOr<v1::JobView> ViewOf(const JobHere& job, const v1::Question& question) {
  std::string why = "no node of it is here any more";
  for (const std::string& door : job.doors) {
    const absl::StatusOr<v1::Answer> answer = Visit(door, question, kViewLimit);
    if (answer.ok() && answer->has_view()) return answer->view();
    why = answer.ok() ? OneLine(answer->why_not()) : std::string(AsStd(answer.status().message()));
  }
  return absl::UnavailableError(
      absl::StrCat("the coordinator of ", OneLine(job.run_id), " does not answer: ", why));
}

void EndVisit::Begin() {
  v1::Question question;
  question.set_kind(v1::Question::KIND_END);
  for (size_t i = 0; i < job_.doors.size(); ++i) {
    absl::StatusOr<OwnedFd> asked = Ask(job_.doors[next_++ % job_.doors.size()], question);
    if (!asked.ok()) continue;
    asked_ = *std::move(asked);
    answer_.emplace(kMaxAnswerBytes);
    asked_at_ = EventLoop::Now();
    return;
  }
}

// A door closes with its agent, too, and the next agent opens it again.
absl::StatusOr<v1::JobEnd> EndVisit::Await(absl::Duration limit) {
  const BootTime last = EventLoop::Now() + limit;
  BootTime until = EventLoop::Now() + kDoorBack;
  size_t in_vain = 0;  // doors that have told nothing; the next one may know the end, and close in a moment
  const auto pause = [&] {
    if (++in_vain % job_.doors.size() == 0) absl::SleepFor(kKnockAgain);
  };
  while (EventLoop::Now() < until) {
    if (!asked_.valid()) Begin();
    if (!asked_.valid()) {
      absl::SleepFor(kKnockAgain);
      continue;
    }
    const absl::Status whole = AwaitFrame(asked_.get(), last - EventLoop::Now(), &*answer_);
    if (absl::IsDeadlineExceeded(whole)) return absl::DeadlineExceededError("the job goes on");
    asked_.Reset();
    const BootTime now = EventLoop::Now();
    if (now >= asked_at_ + kKnockAgain) until = now + kDoorBack;  // it was let in, and has waited
    if (!whole.ok()) {
      pause();
      continue;
    }
    ASSIGN_OR_RETURN(const v1::Answer answer, AnswerIn(*answer_));
    if (answer.has_end()) return answer.end();
    if (answer.has_view())
      return absl::UnimplementedError("the job runs an older version, of which one cannot wait for the end");
    why_ = OneLine(answer.why_not());
    pause();
  }
  return absl::UnavailableError(
      absl::StrCat("it is not known how job ", OneLine(job_.run_id), " has ended: ", why_));
}

}  // namespace muster::cli
