// What the coordinator sends, and when: to each host whose order has changed, in answer to each status, to nodes
// that it refuses, and its farewell.
#pragma once

#include <cstdint>
#include <string>

#include "base/core/time.h"
#include "muster/v1/rendezvous.pb.h"
#include "rendezvous/core/admission.h"
#include "rendezvous/core/directives.h"
#include "rendezvous/core/effects.h"
#include "rendezvous/core/host.h"

namespace muster::rendezvous {

struct Job;

class Outbox {
 public:
  void Send(BootTime now, const Job& job, Host* host, Effects* out);
  // To each attached host whose order is another one than the last that it got.
  void SendChanges(BootTime now, Job* job, Effects* out);
  // The directive says nothing else: a stranger learns nothing of the job.
  static void Refuse(BootTime now, StreamId stream, const v1::AgentStatus& status, const Refusal& refusal,
                     Job* job, Effects* out);
  // `own` reports HOST_GONE. True: it is the primary's host, and a farewell is due, or under way, before its agent
  // may exit.
  bool BeginFarewell(BootTime now, const Host& own, Job* job);
  // Releases the agent of this process when the whole audience has the farewell, or after kFarewellLimit.
  void EndFarewell(BootTime now, Job* job, Effects* out);
  // Decisions were made since: the list of absent nodes is made anew.
  void ForgetAbsent() { directives_.ForgetAbsent(); }

 private:
  Directives directives_;
};

}  // namespace muster::rendezvous
