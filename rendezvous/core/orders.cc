#include "rendezvous/core/orders.h"

#include <algorithm>
#include <csignal>
#include <set>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/text/rank_ranges.h"
#include "base/text/signal_name.h"
#include "base/text/text.h"
#include "base/wire/ids.h"
#include "rendezvous/core/enter.h"
#include "rendezvous/core/explain.h"
#include "rendezvous/core/job.h"

namespace muster::rendezvous {
namespace {

constexpr int kMaxExitCode = 255;
constexpr int kMaxSignal = 64;  // of Linux

const char* NameOf(v1::Order::Kind kind) {
  switch (kind) {
    case v1::Order::KIND_STOP:
      return "muster stop";
    case v1::Order::KIND_RESTART:
      return "muster restart";
    case v1::Order::KIND_DRAIN:
      return "muster drain";
    case v1::Order::KIND_SIGNAL:
      return "muster signal";
    default:
      return "an order that this version does not know";
  }
}

// "muster restart by root@gpu-1: the data was mended"
std::string Describe(const v1::Order& order) {
  return absl::StrCat(NameOf(order.kind()), " by ", order.by().empty() ? "somebody" : Foreign(order.by()),
                      order.reason().empty() ? "" : ": ", Foreign(order.reason()));
}

// The node with this rank in the greatest round, or this host name. why: there is none, or there are several.
Host* FindNode(const std::string& name, Job* job, std::string* why) {
  int rank = -1;
  const bool is_rank = absl::SimpleAtoi(name, &rank);
  std::vector<Host*> found;
  for (auto& [id, host] : job->hosts) {
    if (!host.IsAttached() || !host.IsTrainer()) continue;
    const bool is_meant =
        is_rank ? host.part.in_round && host.part.round.node_rank() == rank : host.status.hostname() == name;
    if (is_meant) found.push_back(&host);
  }
  if (found.size() == 1) return found.front();
  *why = found.empty() ? absl::StrCat("no node of the job is called ", Foreign(name),
                                      ": expected a node's rank in the running round, or its host name")
                       : absl::StrCat(found.size(), " nodes are called ", Foreign(name), ": name one by its rank");
  return nullptr;
}

bool IsAmong(int rank, const v1::Order& order) {
  return order.ranks().empty() ||
         std::any_of(order.ranks().begin(), order.ranks().end(),
                     [rank](const auto& range) { return range.first() <= rank && rank <= range.last(); });
}

Signalling::Targets TargetsOf(const v1::Order& order, const Job& job) {
  Signalling::Targets targets;
  for (const auto& [id, host] : job.hosts) {
    if (!host.part.in_round) continue;
    for (int local = 0; local < host.part.workers; ++local) {
      if (IsAmong(host.part.round.first_rank() + local, order)) targets[id].push_back(local);
    }
  }
  return targets;
}

// Empty: it is obeyed.
std::string Stop(const v1::Order& order, Job* job) {
  if (order.exit_code() < 0 || order.exit_code() > kMaxExitCode) return "expected an exit code from 0 to 255";
  if (job->asked_to_stop) return absl::StrCat("it ends already: ", job->asked_to_stop->why);
  job->asked_to_stop = AskedToStop{.exit_code = order.exit_code(), .why = Describe(order), .is_logged = true};
  return "";
}

std::string Restart(const v1::Order& order, Job* job) {
  if (job->state == State::kDraining) return absl::StrCat("round ", job->greatest.number(), " ends already");
  if (job->state != State::kRunning) return "no round runs";
  job->greatest.restart_order = Describe(order);
  return "";
}

std::string DrainNode(const v1::Order& order, Job* job) {
  std::string why;
  Host* const host = FindNode(order.node(), job, &why);
  if (host == nullptr) return why;
  if (host->IsLeaving() || !host->leave_order.empty()) return absl::StrCat(host->Name(), " leaves already");
  host->leave_order = Describe(order);
  return "";
}

std::string Signal(BootTime now, const v1::Order& order, Job* job) {
  if (job->state != State::kRunning) return "no round runs";
  if (order.signal() < 1 || order.signal() > kMaxSignal) return "expected a signal from 1 to 64";
  if (job->signalling.IsOpen(now)) return "another signal is on its way: ask again";
  const int last = job->greatest.round.world_size() - 1;
  Signalling::Targets targets = TargetsOf(order, *job);
  if (targets.empty()) return absl::StrCat("none of these ranks is here: the round has the ranks 0 to ", last);
  job->signalling.Begin(now, order.id(), job->greatest.id(), order.signal(), std::move(targets));
  return "";
}

std::string Obey(BootTime now, const v1::Order& order, Job* job) {
  if (!Same(order.epoch(), job->epoch()))
    return "it was meant for another coordinator than the one that decides now: look at the job, and order it "
           "again";
  if (job->IsOver()) return absl::StrCat("the job is over: ", job->verdict->reason());
  switch (order.kind()) {
    case v1::Order::KIND_STOP:
      return Stop(order, job);
    case v1::Order::KIND_RESTART:
      return Restart(order, job);
    case v1::Order::KIND_DRAIN:
      return DrainNode(order, job);
    case v1::Order::KIND_SIGNAL:
      return Signal(now, order, job);
    default:
      return "the job runs a version of muster that does not know this order";
  }
}

// What happens now, for who has ordered it.
std::string WhatFollows(const v1::Order& order, const Job& job) {
  switch (order.kind()) {
    case v1::Order::KIND_STOP:
      return absl::StrCat("the job ends with exit code ", order.exit_code());
    case v1::Order::KIND_RESTART:
      return absl::StrCat("round ", job.greatest.number(), " ends, and another one follows");
    case v1::Order::KIND_DRAIN:
      return absl::StrCat("node ", Foreign(order.node()), " leaves the job");
    default:
      return "";
  }
}

std::string NamesOf(const Signalling::Targets& silent, const Job& job) {
  std::vector<std::string> names;
  for (const auto& [id, ranks] : silent) {
    const auto host = job.hosts.Find(id);
    names.push_back(host == nullptr ? "a node that is gone" : host->Name());
  }
  return JoinAtMost(names, kMaxAbsentNamed);
}

void FinishSignal(BootTime now, const Job& job, v1::Ordered* answer) {
  const Signalling& signalling = job.signalling;
  answer->set_done(!signalling.IsOpen(now));
  if (!answer->done()) return;
  const int processes = signalling.processes(), ranks = signalling.ranks();
  const std::string of = absl::StrCat(ranks, ranks == 1 ? " worker" : " workers");
  answer->set_text(processes == 0
                       ? absl::StrCat("no process of ", of, " handles ", DescribeSignal(signalling.signal()),
                                      ": none got it, since it would have ended them")
                       : absl::StrCat(DescribeSignal(signalling.signal()), ": ", processes,
                                      processes == 1 ? " process of " : " processes of ", of, " got it"));
  if (signalling.silent().empty()) return;
  answer->set_obeyed(false);
  answer->set_text(absl::StrCat(answer->text(), "; no answer from ", NamesOf(signalling.silent(), job)));
}

}  // namespace

bool TakeOrder(BootTime now, const v1::Order& order, Job* job, Effects* out) {
  if (order.id().empty() || job->orders.Find(order.id()) != nullptr) return false;
  const std::string why_not = Obey(now, order, job);
  v1::Ordered answer;
  answer.set_obeyed(why_not.empty());
  answer.set_done(order.kind() != v1::Order::KIND_SIGNAL || !why_not.empty());
  answer.set_text(why_not.empty() ? WhatFollows(order, *job) : why_not);
  job->orders.Keep(order.id(), answer);
  const std::string what = Describe(order);
  Say(why_not.empty() ? Severity::kInfo : Severity::kWarning,
      why_not.empty() ? what : absl::StrCat(what, ": not obeyed: ", why_not), out,
      {.event = events::kOrdered, .round = NumberOfRound(*job)});
  return answer.obeyed();
}

v1::Ordered AnswerTo(BootTime now, const v1::Order& order, const Job& job) {
  const v1::Ordered* const kept = job.orders.Find(order.id());
  v1::Ordered answer;
  if (kept == nullptr) {
    answer.set_done(true);
    answer.set_text("an order without a name is not obeyed");
    return answer;
  }
  answer = *kept;
  if (!answer.done() && job.signalling.order_id() == order.id()) FinishSignal(now, job, &answer);
  return answer;
}

}  // namespace muster::rendezvous
