#include "rendezvous/core/orders.h"

#include <algorithm>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/text/rank_ranges.h"
#include "base/text/signal_name.h"
#include "base/text/text.h"
#include "base/wire/ids.h"
#include "base/wire/ranges.h"
#include "base/wire/signals.h"
#include "rendezvous/core/enter.h"
#include "rendezvous/core/explain.h"
#include "rendezvous/core/job.h"

namespace muster::rendezvous {
namespace {

constexpr char kNotAnswered[] = "its nodes have not answered so far";
constexpr char kTooMany[] = "too many orders came within a minute: ask again later";

std::string RanksOption(const v1::Order& order) {
  return order.ranks().empty() ? "" : absl::StrCat(" --ranks ", ShowRanges(PairsOf(order.ranks())));
}

// As it was typed: "muster signal SIGUSR1 --ranks 0-3".
std::string WhatIsOrdered(const v1::Order& order) {
  switch (order.kind()) {
    case v1::Order::KIND_STOP:
      return absl::StrCat("muster stop --code ", order.exit_code());
    case v1::Order::KIND_RESTART:
      return "muster restart";
    case v1::Order::KIND_DRAIN:
      return absl::StrCat("muster drain ", Foreign(order.node()));
    case v1::Order::KIND_SIGNAL:
      return Foreign(absl::StrCat("muster signal ", DescribeSignal(order.signal()), RanksOption(order)));
    default:
      return "an order that this version does not know";
  }
}

// "muster restart by root@gpu-1: the data was mended"
std::string DescribeOrder(const v1::Order& order) {
  return absl::StrCat(WhatIsOrdered(order), " by ", order.by().empty() ? "somebody" : Foreign(order.by()),
                      order.reason().empty() ? "" : ": ", Foreign(order.reason()));
}

std::vector<Host*> Trainers(Job* job, const std::function<bool(const Host&)>& is_meant) {
  std::vector<Host*> found;
  for (auto& [id, host] : job->hosts) {
    if (host.IsTrainer() && is_meant(host)) found.push_back(&host);
  }
  return found;
}

// The node with this rank in the greatest round, or at this place without one, or else with this name. nullptr:
// `why` says that it is not there, or that several are.
Host* FindNode(const std::string& name, Job* job, std::string* why) {
  int number = -1;
  const bool is_number = absl::SimpleAtoi(name, &number) && absl::StrCat(number) == name;
  std::vector<Host*> found = Trainers(job, [&](const Host& host) {
    return is_number && host.part.in_round && host.part.round.node_rank() == number;
  });
  if (!found.empty() && !found.front()->IsAttached()) {
    *why = absl::StrCat("node ", number, " is not there at the moment");
    return nullptr;
  }
  if (found.empty()) {
    found = Trainers(job, [&](const Host& host) {
      return is_number && host.IsAttached() && !host.part.in_round && host.status.has_place() &&
             host.status.place() == number;
    });
  }
  if (found.empty()) {
    found = Trainers(job, [&](const Host& host) {
      return host.IsAttached() && (host.status.hostname() == name || host.status.host_id() == name);
    });
  }
  if (found.size() == 1) return found.front();
  *why = found.empty() ? absl::StrCat("no node that is here is called ", Foreign(name),
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
    if (!host.part.in_round || host.part.succeeded) continue;
    for (int local = 0; local < host.part.workers; ++local) {
      if (IsAmong(host.part.round.first_rank() + local, order)) targets[id].push_back(local);
    }
  }
  return targets;
}

// Each of these notes what is ordered. Returns why not; empty: it is obeyed.

std::string Stop(const v1::Order& order, Job* job) {
  if (order.exit_code() < 0 || order.exit_code() > kMaxExitCode) return "expected an exit code from 0 to 255";
  if (job->farewell) return "the coordinator ends with its node: order it again once the next one is there";
  if (job->asked_to_stop) return absl::StrCat("it ends already: ", job->asked_to_stop->why);
  job->asked_to_stop = AskedToStop{.exit_code = order.exit_code(), .why = DescribeOrder(order), .is_logged = true};
  return "";
}

std::string Restart(const v1::Order& order, Job* job) {
  if (std::string why = WhyNoRoundRuns(*job); !why.empty()) return why;
  job->greatest.restart_order = DescribeOrder(order);
  return "";
}

std::string DrainNode(const v1::Order& order, Job* job, OrderBook::Entry* entry) {
  std::string why;
  Host* const host = FindNode(order.node(), job, &why);
  if (host == nullptr) return why;
  if (host->IsLeaving() || !host->leave_order.empty())
    return absl::StrCat(NodeName(*job, *host), " leaves already");
  host->leave_order = DescribeOrder(order);
  if (host->part.in_round) job->greatest.drain_orders.insert(host->part.node);
  entry->node = NodeName(*job, *host);
  // The coordinator's own node is not awaited: nobody could say what became of it.
  if (!host->status.at_primary()) entry->host_id = host->status.host_id();
  return "";
}

std::string Signal(BootTime now, const v1::Order& order, Job* job) {
  if (std::string why = WhyNoRoundRuns(*job); !why.empty()) return why;
  if (order.signal() < 1 || order.signal() > kMaxSignal) return "expected a signal from 1 to 64";
  if (job->signalling.IsOpen(now)) return "another signal is on its way: ask again in a moment";
  const int last = job->greatest.round.world_size() - 1;
  Signalling::Targets targets = TargetsOf(order, *job);
  const bool is_beyond = std::any_of(order.ranks().begin(), order.ranks().end(),
                                     [last](const v1::RankRange& range) { return range.last() > last; });
  if (is_beyond || targets.empty()) return absl::StrCat("expected ranks that run: the round has 0 to ", last);
  const bool is_long = std::any_of(targets.begin(), targets.end(), [](const auto& target) {
    return static_cast<int64_t>(target.second.size()) > kMaxRanksSent;
  });
  if (is_long && !order.ranks().empty())
    return absl::StrCat("expected at most ", kMaxRanksSent, " ranks of one node, or all");
  v1::SignalOrder what;
  *what.mutable_round() = job->greatest.id();
  what.set_signal(order.signal());
  what.set_why(DescribeOrder(order));
  job->signalling.Begin(now, order.id(), what, std::move(targets), order.ranks().empty());
  return "";
}

// entry: of this order; what is to be followed of it is noted there.
std::string Obey(BootTime now, const v1::Order& order, Job* job, OrderBook::Entry* entry) {
  if (job->IsOver()) return absl::StrCat("the job is over: ", job->verdict->reason());
  if (!Same(order.epoch(), job->epoch()))
    return "another coordinator decides by now, and does not know whether the one before it obeyed: look at the "
           "job (muster status, muster events) before you order it again";
  if (order.kind() != v1::Order::KIND_STOP && !job->orders.HasRoom(now)) return kTooMany;
  switch (order.kind()) {
    case v1::Order::KIND_STOP:
      return Stop(order, job);
    case v1::Order::KIND_RESTART:
      return Restart(order, job);
    case v1::Order::KIND_DRAIN:
      return DrainNode(order, job, entry);
    case v1::Order::KIND_SIGNAL:
      return Signal(now, order, job);
    default:
      return "the job runs a version of muster that does not know this order";
  }
}

// What happens now, for who has ordered it.
std::string WhatFollows(const v1::Order& order, const OrderBook::Entry& entry, const Job& job) {
  switch (order.kind()) {
    case v1::Order::KIND_STOP:
      return absl::StrCat("the job ends with exit code ", order.exit_code());
    case v1::Order::KIND_RESTART:
      return absl::StrCat("round ", job.greatest.number(), " ends, and another one follows");
    case v1::Order::KIND_DRAIN:
      if (!entry.host_id.empty()) return kNotAnswered;
      return absl::StrCat(entry.node,
                          " leaves the job, and the coordinator with it: the job goes on once another one "
                          "is there");
    default:
      return kNotAnswered;
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

std::string HowManyGotIt(const Signalling& signalling) {
  const int got = signalling.processes(), ranks = signalling.ranks_heard();
  const std::string signal = DescribeSignal(signalling.signal());
  const std::string workers = absl::StrCat(ranks, ranks == 1 ? " worker" : " workers");
  if (GoesToGroup(signalling.signal())) return absl::StrCat(signal, ": ", got, " of ", workers, " got it");
  if (got == 0) return absl::StrCat("no process of ", workers, " handles ", signal, ", so none got it");
  return absl::StrCat(signal, ": ", got, got == 1 ? " process of " : " processes of ", workers, " got it");
}

void FinishSignal(BootTime now, const Job& job, v1::Ordered* answer) {
  const Signalling& signalling = job.signalling;
  if (signalling.IsOpen(now)) return;
  answer->set_done(true);
  answer->set_obeyed(signalling.processes() > 0 && signalling.silent().empty());
  answer->set_text(HowManyGotIt(signalling));
  if (signalling.silent().empty()) return;
  answer->set_text(absl::StrCat(signalling.ranks_heard() == 0 ? "" : absl::StrCat(answer->text(), "; "),
                                "no answer from ", NamesOf(signalling.silent(), job), ", which may get it later"));
}

void FinishDrain(BootTime now, const Job& job, const OrderBook::Entry& entry, v1::Ordered* answer) {
  const Host* const host = job.hosts.Find(entry.host_id);
  const bool leaves = host == nullptr || host->IsLeaving() || host->IsGone();
  if (!leaves && now < entry.at + kOrderAnswers) return;
  answer->set_done(true);
  answer->set_obeyed(leaves);
  answer->set_text(leaves ? absl::StrCat(entry.node, " leaves the job")
                          : absl::StrCat("no answer from ", entry.node, ", which leaves once it hears of it"));
}

void Follow(BootTime now, const Job& job, OrderBook::Entry* entry) {
  if (entry->answer.done()) return;
  if (!entry->host_id.empty()) return FinishDrain(now, job, *entry, &entry->answer);
  if (entry->id == job.signalling.order_id()) FinishSignal(now, job, &entry->answer);
}

}  // namespace

bool TakeOrder(BootTime now, const v1::Order& order, Job* job, Effects* out) {
  FollowOrders(now, job);  // before another signal takes the place of the last one
  if (order.id().empty() || job->orders.Find(order.id()) != nullptr) return false;
  OrderBook::Entry entry;
  entry.id = order.id();
  entry.at = now;
  const std::string why_not = Obey(now, order, job, &entry);
  const bool is_awaited = order.kind() == v1::Order::KIND_SIGNAL || !entry.host_id.empty();
  entry.answer.set_obeyed(why_not.empty());
  entry.answer.set_done(!is_awaited || !why_not.empty());
  entry.answer.set_text(why_not.empty() ? WhatFollows(order, entry, *job) : why_not);
  if (entry.answer.obeyed() || job->orders.HasRoom(now)) job->orders.Keep(std::move(entry));
  const std::string what = DescribeOrder(order);
  Say(why_not.empty() ? Severity::kInfo : Severity::kWarning,
      why_not.empty() ? what : absl::StrCat(what, ": not obeyed: ", why_not), out,
      {.event = events::kOrdered, .round = NumberOfRound(*job)});
  return why_not.empty();
}

void FollowOrders(BootTime now, Job* job) {
  for (OrderBook::Entry& entry : job->orders.all()) Follow(now, *job, &entry);
}

v1::Ordered AnswerTo(const v1::Order& order, const Job& job) {
  if (const OrderBook::Entry* const entry = job.orders.Find(order.id())) return entry->answer;
  v1::Ordered answer;
  answer.set_done(true);
  answer.set_text(order.id().empty() ? "an order without a name is not obeyed" : kTooMany);
  return answer;
}

}  // namespace muster::rendezvous
