#include "rendezvous/core/admission.h"

#include "absl/strings/str_cat.h"
#include "base/exit_codes.h"
#include "base/text/text.h"
#include "base/wire/ids.h"
#include "base/wire/ranges.h"
#include "rendezvous/core/explain.h"
#include "rendezvous/core/job.h"

namespace muster::rendezvous {
namespace {

// A status with an unknown value is refused, because a drain would wait for such a host forever.
std::string UnknownValue(const v1::AgentStatus& status) {
  const auto unknown = [](const char* what, int value) {
    return absl::StrCat("invalid status: unknown ", what, " ", value, "; use one version of muster on all nodes");
  };
  if (!v1::Phase_IsValid(status.phase()) || status.phase() == v1::PHASE_UNSPECIFIED) {
    return unknown("phase", status.phase());
  }
  if (!v1::Outcome_IsValid(status.outcome())) return unknown("outcome", status.outcome());
  if (!v1::Role_IsValid(status.role())) return unknown("role", status.role());
  return "";
}

// Describes a value that no agent sends, or returns "". Counting up from such a number would overflow.
std::string Nonsense(const v1::AgentStatus& status) {
  if (const std::string found = OutOfRange(status); !found.empty()) {
    return absl::StrCat("invalid status: ", found, "; use one version of muster on all nodes");
  }
  if (const std::string found = WhyImpossible(status.last()); !found.empty()) {
    return absl::StrCat("invalid status: ", found);
  }
  if (!IsHostText(status.offer().host())) return "invalid status: an address with characters that none has";
  return UnknownValue(status);
}

// Whether the status has numbers that nothing in this job can have led to. A coordinator that has not owned a
// round yet may follow one that it does not know; it leaves room to count on from there.
bool IsFar(const Job& job, const v1::AgentStatus& status) {
  constexpr uint64_t kMostAtStart = kMaxNumber / 2;
  const uint64_t epoch = status.epoch().number(), round = status.last().id().number();
  if (!job.greatest.kept.ever_controlled) return epoch > kMostAtStart || round > kMostAtStart;
  return epoch > job.epoch().number() + kMaxJump || round > job.greatest.kept.max_number + kMaxJump;
}

// Whether it names a round of this coordinator's that this coordinator has not made. Nobody can have heard of one.
// (Of its own rounds the last one is the greatest known, or an even greater one of another coordinator is.)
bool InventsARoundOfOurs(const Job& job, const v1::Round& last) {
  return Compare(last.id(), job.greatest.id()) > 0 && job.succession.IsOwn(last.id().epoch());
}

// Describes what cannot be true of this job, or returns "".
std::string Impossible(const Job& job, StreamId stream, const v1::AgentStatus& status) {
  if (IsLocal(stream)) return "";
  if (status.at_primary()) return "invalid status: claims to come from the coordinator's own process";
  const Host* const host = job.hosts.Find(status.host_id());
  const bool moves = host != nullptr &&
                     (host->status.has_place() != status.has_place() || host->status.place() != status.place());
  if (moves) return "claims several places";
  if (IsFar(job, status)) return "invalid status: an epoch or round far beyond those of this job";
  if (InventsARoundOfOurs(job, status.last())) return kNeverStarted;
  const bool is_greater = Compare(status.epoch(), job.epoch()) > 0;
  if (BringsSuccess(status) && !is_greater && !job.verdict && job.MadeItsRound()) return kRunsStill;
  return "";
}

// Whether the node was started after this job had its verdict, and so belongs to the next job of that run id. A
// status is on its way for a while, which makes its host look younger; it takes no longer than the connection did.
bool IsOfTheNextJob(BootTime now, const Job& job, const v1::AgentStatus& status) {
  if (!job.options.run_id_may_repeat || !job.IsOver()) return false;
  const bool was_in_a_job = IsSet(status.last().id()) || IsSet(status.epoch()) || status.has_verdict();
  if (was_in_a_job || job.hosts.Find(status.host_id()) != nullptr) return false;
  const absl::Duration age = absl::Milliseconds(status.in_job_ms()) + absl::Milliseconds(status.connect_ms());
  return now - age > job.concluded_at;
}

// Whether the node knows the end of a job that was over before the primary's host was started: that host was
// started for the next job, unless some node still knows a round. A separate coordinator is started again for the
// same job.
bool IsOfTheFormerJob(BootTime now, const Job& job, const v1::AgentStatus& status) {
  if (!job.options.run_id_may_repeat || !status.has_verdict() || job.verdict) return false;
  if (job.greatest.IsKnown() && !job.greatest.was_made_here) return false;
  return now - absl::Milliseconds(status.verdict_age_ms()) < job.options.host_began;
}

// Whether a primary's node that cannot start its program stays in the job as its coordinator. Without this process
// the other nodes would have no coordinator, and they may continue without the primary's own workers. Where no
// other node can replace those, the primary's node exits, to be started again, once the others have had
// kLatecomers to hear why they wait.
bool ServesOn(BootTime now, const Job& job, const v1::AgentStatus& status) {
  const bool needed = job.options.fixed_size() && status.has_place() && job.state == State::kGathering;
  return status.at_primary() && (!needed || now < job.state_since + kLatecomers);
}

}  // namespace

std::optional<Refusal> WhyRefused(BootTime now, const Job& job, StreamId stream, const v1::AgentStatus& status) {
  if (status.protocol() != kProtocol) {  // first: the other fields may have another meaning
    return Refusal{
        absl::StrCat("protocol ", status.protocol(), " (muster ", Foreign(status.version()),
                     ") differs from this job's protocol ", kProtocol, "; use one version of muster on all nodes"),
        kExitRefused};
  }
  if (status.run_id() != job.options.run_id) {
    const std::string own = absl::StrCat("run id '", Foreign(status.run_id()), "'");
    constexpr char kToDo[] = "; set the same --rdzv-id on all nodes";
    return Refusal{.reason = absl::StrCat(own, " differs from this job's '", job.options.run_id, "'", kToDo),
                   .exit_code = kExitRefused,
                   .told = absl::StrCat(own, " is not this job's", kToDo)};
  }
  if (status.host_id().empty()) return std::nullopt;
  if (const std::string nonsense = Nonsense(status); !nonsense.empty()) return Refusal{nonsense, kExitRefused};
  if (const std::string impossible = Impossible(job, stream, status); !impossible.empty()) {
    return Refusal{impossible, kExitRefused};
  }
  if (IsOfTheNextJob(now, job, status)) return Refusal{.reason = kIsOfTheNextJob, .later = true};
  // Members that do not know the end may still be on their way, and show that it is the same job.
  if (IsOfTheFormerJob(now, job, status))
    return Refusal{.reason = kIsOfTheFormerJob, .later = now < job.succession.members_known_until()};
  // The other nodes run or ran without it, so the fault is in this node alone, and it exits with its own error.
  if (status.has_cannot_start() && !job.gathering.first_round && !ServesOn(now, job, status)) {
    return Refusal{WhyItCannotStart(job, status), ExitCodeOf(status.cannot_start())};
  }
  return std::nullopt;
}

}  // namespace muster::rendezvous
