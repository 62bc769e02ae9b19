#include "rendezvous/core/event_record.h"

#include <algorithm>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/wire/ranges.h"
#include "rendezvous/core/job.h"

namespace muster::rendezvous {
namespace {

const Host* MemberOf(int64_t node_rank, const Job& job) {
  const auto found = std::find_if(job.hosts.begin(), job.hosts.end(), [&](const auto& entry) {
    return job.WasMember(entry.second) && entry.second.part.round.node_rank() == node_rank;
  });
  return found == job.hosts.end() ? nullptr : &found->second;
}

void SetWhere(const NoteSubject& subject, const Job& job, v1::Event* event) {
  event->set_host(subject.host);
  if (subject.node_rank >= 0) event->set_node_rank(static_cast<int32_t>(subject.node_rank));
  if (subject.rank >= 0) event->set_rank(static_cast<int32_t>(subject.rank));
  if (!subject.host.empty() || (subject.node_rank < 0 && subject.rank < 0)) return;
  const Host* const host =
      subject.node_rank >= 0 ? MemberOf(subject.node_rank, job) : job.HostOf(static_cast<int>(subject.rank));
  if (host == nullptr) return;
  event->set_host(host->status.hostname());
  event->set_node_rank(host->part.round.node_rank());
}

// The newest round that ended has just been followed by another one, or that one has shown its first sign of life.
void SetRecovery(std::string_view name, const Job& job, v1::Event* event) {
  if (job.history.newest().empty()) return;
  const EndedRound& ended = job.history.newest().back();
  if (name == events::kRecovered) *event->mutable_recovery() = RecoveryFrom(ended);
  if (name == events::kFirstSign && ended.starting) *event->mutable_recovery() = StartAfter(ended);
}

void SetResult(const v1::Verdict& verdict, v1::Event* event) {
  event->set_exit_code(verdict.exit_code());
  if (!verdict.has_root_cause()) return;
  const v1::Failure& cause = verdict.root_cause();
  event->set_rank(cause.rank());
  event->set_node_rank(cause.node_rank());
  event->set_host(cause.host());
}

// A round that stops because of a worker is news of a failure, and so may be the verdict, whatever their lines
// are.
bool IsBad(const Note& note, const Job& job) {
  const std::string_view name = note.subject.event;
  if (name == events::kRoundStopping) return note.subject.rank >= 0;
  if (name == events::kLeaving) return true;
  if (name == events::kVerdict) return job.verdict && job.verdict->exit_code() != 0;
  return note.severity >= Severity::kWarning;
}

v1::Event EventOf(const Note& note, const Job& job) {
  v1::Event event;
  event.set_name(note.subject.event);
  event.set_text(note.text);
  event.set_is_bad(IsBad(note, job));
  if (note.subject.round > 0) event.set_round(static_cast<uint64_t>(note.subject.round));
  SetWhere(note.subject, job, &event);
  SetRecovery(note.subject.event, job, &event);
  if (note.subject.event == std::string_view(events::kVerdict) && job.verdict) SetResult(*job.verdict, &event);
  return event;
}

}  // namespace

Recording::~Recording() {
  for (size_t i = from_; i < said_->size(); ++i) {
    const Note* const note = std::get_if<Note>(&(*said_)[i]);
    if (note != nullptr && IsJobEvent(note->subject.event))
      job_->events.Add(now_, job_->epoch(), EventOf(*note, *job_));
  }
}

}  // namespace muster::rendezvous
