#include "rendezvous/core/outbox.h"

#include <utility>

#include "base/exit_codes.h"
#include "base/wire/ids.h"
#include "rendezvous/core/job.h"
#include "rendezvous/core/parting.h"

namespace muster::rendezvous {

void Outbox::Send(BootTime now, const Job& job, Host* host, Effects* out) {
  out->push_back(SendDirective{host->stream, directives_.For(now, job, host)});
}

void Outbox::SendChanges(BootTime now, Job* job, Effects* out) {
  job->verdict_kept = true;
  for (const auto& [id, host] : std::as_const(job->hosts)) {
    if (host.status.at_primary() && host.IsAttached() && !host.status.has_verdict()) job->verdict_kept = false;
  }
  for (auto& [id, host] : job->hosts) {
    if (!host.IsAttached()) continue;
    // The RUN of a new round differs from the last order, too: a member of the last one has got a STOP since.
    if (host.exchange.order_sent != OrderFor(now, *job, host)) Send(now, *job, &host, out);
  }
}

void Outbox::Refuse(BootTime now, StreamId stream, const v1::AgentStatus& status, const Refusal& refusal, Job* job,
                    Effects* out) {
  job->refusals.NoteRefused(now, stream, Foreign(status.hostname()), refusal.reason, out);
  v1::Directive directive;
  directive.set_protocol(kProtocol);
  directive.mutable_refused()->set_exit_code(refusal.exit_code);
  directive.mutable_refused()->set_reason(refusal.told);
  directive.mutable_refused()->set_later(refusal.later);
  out->push_back(SendDirective{stream, std::move(directive)});
}

bool Outbox::BeginFarewell(BootTime now, const Host& own, Job* job) {
  if (job->farewell) {  // the agent has repeated its status
    if (job->farewell->stream != own.stream) return false;
    job->farewell->echo = own.status.id();
    return true;
  }
  job->farewell = FarewellFor(now, *job, own, directives_.last_seq());
  if (!job->farewell) return false;
  for (auto& [id, host] : job->hosts) {
    // Nodes that attach later are left out: otherwise one could be counted in place of a node of this audience.
    host.in_farewell_audience = host.IsTrainer();
    host.exchange.order_sent = -1;  // send at once
  }
  return true;
}

void Outbox::EndFarewell(BootTime now, Job* job, Effects* out) {
  std::optional<Farewell>& farewell = job->farewell;
  if (!farewell || farewell->stream == 0) return;
  if (!AudienceHasFarewell(*job) && now < farewell->since + kFarewellLimit) return;
  v1::Directive directive = directives_.Next(*job, farewell->echo);
  directive.mutable_release()->set_exit_code(kExitLeft);
  out->push_back(SendDirective{farewell->stream, std::move(directive)});
  farewell->stream = 0;
}

}  // namespace muster::rendezvous
