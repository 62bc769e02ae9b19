#include "agent/process/core/job_memory.h"

#include <algorithm>

#include "base/wire/ids.h"

namespace muster::agent {
namespace {

void LearnRound(BootTime now, const v1::Round& round, v1::Memory* memory) {
  const int order = Compare(round.id(), memory->last().id());
  if (order < 0 || (order == 0 && !(round.has_node_rank() && !memory->last().has_node_rank()))) return;
  *memory->mutable_last() = round;
  memory->mutable_last()->clear_primary_ended();
  memory->clear_primary_ended_boot_ns();
  memory->set_last_told_boot_ns(ToBootNanos(now));
}

// A brief verdict does not replace the full one with the same digest.
void LearnVerdict(BootTime now, const v1::Verdict& verdict, v1::Memory* memory) {
  if (!memory->has_verdict()) memory->set_verdict_boot_ns(ToBootNanos(now));
  const bool held = memory->has_verdict() && memory->verdict().digest() == verdict.digest();
  if (!verdict.brief() || !held) *memory->mutable_verdict() = verdict;
}

void LearnGathering(BootTime now, const v1::Wait& wait, bool is_ready, v1::Memory* memory) {
  // A spare that stands by while a round runs is not gathering.
  const bool gathering = wait.gathering();
  if (!gathering) memory->set_gathering_since_boot_ns(0);
  if (gathering && is_ready && memory->gathering_since_boot_ns() == 0) {
    memory->set_gathering_since_boot_ns(ToBootNanos(now));
  }
}

}  // namespace

void LearnDirective(BootTime now, const v1::Directive& directive, v1::Memory* memory) {
  *memory->mutable_epoch() = directive.id().epoch();
  *memory->mutable_applied() = directive.id();
  if (directive.has_settings()) *memory->mutable_settings() = directive.settings();
  if (directive.has_greatest()) LearnRound(now, directive.greatest(), memory);
}

void LearnOrder(BootTime now, const v1::Directive& directive, bool is_ready, v1::Memory* memory) {
  if (directive.has_wait()) LearnGathering(now, directive.wait(), is_ready, memory);
  if (directive.has_run()) LearnRound(now, directive.run(), memory);
  if (directive.has_verdict()) LearnVerdict(now, directive.verdict(), memory);
  if (directive.has_run() || directive.has_verdict()) memory->set_gathering_since_boot_ns(0);
  if (directive.has_stop() && IsNewStop(directive.stop(), *memory)) {
    *memory->mutable_stopped() = directive.stop().round();
  }
}

// The directive was sent after the status that it echoes, however long it was on its way. So the age in it,
// counted back from the sending of that status, gives the earliest possible time.
void LearnPrimaryEnded(BootTime sent, const v1::Round& greatest, v1::Memory* memory) {
  if (!greatest.has_primary_ended() || !Same(greatest.id(), memory->last().id())) return;
  const BootTime ended = sent - absl::Milliseconds(greatest.primary_ended().age_ms());
  const bool known = memory->last().has_primary_ended();
  const int64_t before = known ? memory->primary_ended_boot_ns() : ToBootNanos(ended);
  *memory->mutable_last()->mutable_primary_ended() = greatest.primary_ended();
  memory->set_primary_ended_boot_ns(std::max(before, ToBootNanos(ended)));
}

// A coordinator stops what this node has been told of. Any other number would keep it from all rounds below.
bool IsNewStop(const v1::Stop& stop, const v1::Memory& memory) {
  const bool is_known = Compare(stop.round(), memory.last().id()) <= 0;
  return is_known && Compare(stop.round(), memory.stopped()) > 0;
}

}  // namespace muster::agent
