// Where an agent comes that looks for its coordinator and does not find it: another job's, a server or a proxy
// that refuses the stream or resets it, an address of earlier days.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/exit_codes.h"
#include "base/ids.h"
#include "rendezvous/transport/session_error.h"
#include "tests/simulation/world.h"

namespace muster::simulation {
namespace {

constexpr Micros kLoopbackDelay = 50;
constexpr Micros kLongestStream = 200 * kMillisecond;  // of one that is reset
constexpr Micros kLongestTrouble = 8 * kSecond;        // of a server or a proxy
// How a name server that has not heard of a change yet answers for a while.
constexpr Micros kStaleAtLeast = 500 * kMillisecond;
constexpr Micros kStaleAtMost = 20 * kSecond;
// gRPC's codes, by value. The refusals among them are rare: a node that is new ends with them.
constexpr int kOk = 0, kUnimplemented = 12, kUnauthenticated = 16, kPermissionDenied = 7;
constexpr int kCodes[] = {14, 14, 14, 8, 8, 13, 1, 4, 2, kOk, kUnimplemented, kUnauthenticated, kPermissionDenied};

}  // namespace

// One node may be led astray while all others find the way.
bool World::IsLedAstray(AgentProcess* agent, uint64_t attempt, Micros delay) {
  if (healed_) return false;
  if (scenario_.another_job_percent > 0 && prng_.Chance(scenario_.another_job_percent)) {
    DeliverAfter(delay, agent, [this, agent, attempt] { ReachAnotherJob(agent, attempt); });
    return true;
  }
  Machine& machine = *agent->machine;
  if (now() >= machine.refused_until && scenario_.refused_streams_percent > 0 &&
      hardships_.Chance(scenario_.refused_streams_percent)) {
    machine.refused_until = now() + hardships_.Skewed(kMillisecond, kLongestTrouble);
    machine.streams = static_cast<Machine::Streams>(hardships_.Below(3));
  }
  if (now() < machine.refused_until) {
    DeliverAfter(delay, agent, [this, agent, attempt] { RefuseStream(agent, attempt); });
    return true;
  }
  if (scenario_.stale_names_percent > 0 && now() >= machine.stale_until &&
      hardships_.Chance(scenario_.stale_names_percent)) {
    machine.stale_until = now() + hardships_.Skewed(kStaleAtLeast, kStaleAtMost);
  }
  if (now() >= machine.stale_until) return false;
  Note("network", absl::StrCat(agent->name, " is led to an old address"));
  // Nobody has that address any more, or a machine that has no coordinator.
  if (hardships_.Chance(50)) {
    DeliverAfter(2 * delay, agent, [this, agent, attempt] { FailAttempt(agent, attempt, "connection refused"); });
  }
  return true;
}

// The address, or the name that stands for it, leads to the coordinator of another job, which refuses this node:
// by its token before the session begins, or by the run id once it has heard it.
void World::ReachAnotherJob(AgentProcess* agent, uint64_t attempt) {
  const Machine& machine = *agent->machine;
  if (agent->attempt != attempt || !agent->alive || machine.cut_out + machine.cut_in > 0) return;
  Note("network", absl::StrCat(agent->name, " reaches another job's coordinator"));
  const uint64_t session = ++agent->attempt;
  const auto is_new = [agent] { return !IsSet(agent->core.memory().epoch()); };
  if (prng_.Chance(50)) {
    agent->host->refused_elsewhere |= is_new();
    return OnAgent(agent, [agent](BootTime now, agent::Effects* out) {
      agent->core.OnDisconnected(now, "the token is wrong", kExitRefused, out);
    });
  }
  OnAgent(agent, [agent](BootTime now, agent::Effects* out) { agent->core.OnConnected(now, "", out); });
  v1::Directive refusal;
  refusal.mutable_id()->mutable_epoch()->set_number(prng_.Chance(50) ? 1 : kStrangersEpoch);
  refusal.mutable_id()->set_seq(1);
  refusal.mutable_refused()->set_exit_code(kExitRefused);
  refusal.mutable_refused()->set_reason("run id 'simulated' differs from this job's 'other'");
  DeliverAfter(
      prng_.Exponential(scenario_.delay) + kLoopbackDelay, agent, [this, agent, session, refusal, is_new] {
        if (agent->attempt != session) return;
        agent->host->refused_elsewhere |= is_new();
        OnAgent(agent, [&](BootTime now, agent::Effects* out) { agent->core.OnDirective(now, refusal, out); });
      });
}

// The connection stands, and the stream is refused before anybody answers, or opens and is reset, or hangs. What
// is sent on it is lost.
void World::RefuseStream(AgentProcess* agent, uint64_t attempt) {
  const Machine& machine = *agent->machine;
  if (agent->attempt != attempt || !agent->alive || machine.cut_out + machine.cut_in > 0) return;
  const uint64_t session = ++agent->attempt;
  const int code = kCodes[hardships_.Below(std::size(kCodes))];
  if (machine.streams == Machine::Streams::kRefused) {
    return EndStream(agent, session, code == kOk ? kUnimplemented : code, false);
  }
  Note("network", absl::StrCat(agent->name, " has a stream that leads nowhere"));
  OnAgent(agent, [agent](BootTime now, agent::Effects* out) { agent->core.OnConnected(now, "", out); });
  if (machine.streams == Machine::Streams::kHang) return;
  DeliverAfter(hardships_.Skewed(kLoopbackDelay, kLongestStream), agent,
               [this, agent, session, code] { EndStream(agent, session, code, true); });
}

// As the agent's session reads the status with which gRPC ends a call.
void World::EndStream(AgentProcess* agent, uint64_t attempt, int code, bool was_open) {
  if (agent->attempt != attempt) return;
  ++agent->attempt;
  const int refused = rendezvous::RefusalCode(code);
  agent->host->refused_elsewhere |= refused != 0 && !IsSet(agent->core.memory().epoch());
  const std::string why =
      rendezvous::DescribeSessionError({code, "the stream was reset", was_open, ""}, "the primary at node-0:1");
  OnAgent(agent, [&](BootTime now, agent::Effects* out) { agent->core.OnDisconnected(now, why, refused, out); });
}

}  // namespace muster::simulation
