// Wrong destinations of an agent that looks for its coordinator: another job's coordinator, a server or a proxy
// that refuses or resets the stream, an outdated address.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/exit_codes.h"
#include "base/ids.h"
#include "rendezvous/transport/session_error.h"
#include "tests/simulation/world.h"

namespace muster::simulation {
namespace {

constexpr Micros kLoopbackDelay = 50;
constexpr Micros kLongestStream = 200 * kMillisecond;  // lifetime of a stream that is reset
constexpr Micros kLongestTrouble = 8 * kSecond;        // of a server's or proxy's trouble
// How long a name server may return an outdated address.
constexpr Micros kStaleAtLeast = 500 * kMillisecond;
constexpr Micros kStaleAtMost = 20 * kSecond;
// gRPC's codes, by value. Refusals are rare because they end a new node.
constexpr int kOk = 0, kUnimplemented = 12, kUnauthenticated = 16, kPermissionDenied = 7;
constexpr int kCodes[] = {14, 14, 14, 8, 8, 13, 1, 4, 2, kOk, kUnimplemented, kUnauthenticated, kPermissionDenied};

}  // namespace

// One node may get a wrong address while all others get the right one.
bool World::IsLedAstray(AgentProcess* agent, uint64_t attempt, Micros delay) {
  if (healed_) return false;
  if (scenario_.detours.another_job_percent > 0 && prng_.Chance(scenario_.detours.another_job_percent)) {
    DeliverAfter(delay, agent, [this, agent, attempt] { ReachAnotherJob(agent, attempt); });
    return true;
  }
  Machine& machine = *agent->machine;
  if (now() >= machine.refused_until && scenario_.detours.refused_streams_percent > 0 &&
      hardships_.Chance(scenario_.detours.refused_streams_percent)) {
    machine.refused_until = now() + hardships_.Skewed(kMillisecond, kLongestTrouble);
    machine.streams = static_cast<Machine::Streams>(hardships_.Below(3));
  }
  if (now() < machine.refused_until) {
    DeliverAfter(delay, agent, [this, agent, attempt] { RefuseStream(agent, attempt); });
    return true;
  }
  if (scenario_.detours.stale_names_percent > 0 && now() >= machine.stale_until &&
      hardships_.Chance(scenario_.detours.stale_names_percent)) {
    machine.stale_until = now() + hardships_.Skewed(kStaleAtLeast, kStaleAtMost);
  }
  if (now() >= machine.stale_until) return false;
  Note("network", absl::StrCat(agent->name, " is led to an old address"));
  // The address is unused, or belongs to a machine without a coordinator.
  if (hardships_.Chance(50)) {
    DeliverAfter(2 * delay, agent, [this, agent, attempt] { FailAttempt(agent, attempt, "connection refused"); });
  }
  return true;
}

// The address or name leads to another job's coordinator, which refuses this node: by its token before the session
// begins, or by the run id of its first status.
void World::ReachAnotherJob(AgentProcess* agent, uint64_t attempt) {
  const Machine& machine = *agent->machine;
  if (agent->attempt != attempt || !agent->alive || machine.cut_out + machine.cut_in > 0) return;
  Note("network", absl::StrCat(agent->name, " reaches another job's coordinator"));
  const uint64_t session = ++agent->attempt;
  const auto is_new = [agent] { return !IsSet(agent->core.memory().epoch()); };
  if (prng_.Chance(50)) {
    agent->host->refused_elsewhere |= is_new();
    return OnAgent(agent, &agent::AgentCore::OnDisconnected, "the token is wrong", kExitRefused);
  }
  OnAgent(agent, &agent::AgentCore::OnConnected, "");
  v1::Directive refusal;
  refusal.mutable_id()->mutable_epoch()->set_number(prng_.Chance(50) ? 1 : kStrangersEpoch);
  refusal.mutable_id()->set_seq(1);
  refusal.mutable_refused()->set_exit_code(kExitRefused);
  refusal.mutable_refused()->set_reason("run id 'simulated' differs from this job's 'other'");
  DeliverAfter(prng_.Exponential(scenario_.network.delay) + kLoopbackDelay, agent,
               [this, agent, session, refusal, is_new] {
                 if (agent->attempt != session) return;
                 agent->host->refused_elsewhere |= is_new();
                 OnAgent(agent, &agent::AgentCore::OnDirective, refusal);
               });
}

// The connection is established, and the stream is refused, or opens and is reset, or hangs. Data sent on it is
// lost.
void World::RefuseStream(AgentProcess* agent, uint64_t attempt) {
  const Machine& machine = *agent->machine;
  if (agent->attempt != attempt || !agent->alive || machine.cut_out + machine.cut_in > 0) return;
  const uint64_t session = ++agent->attempt;
  const int code = kCodes[hardships_.Below(std::size(kCodes))];
  if (machine.streams == Machine::Streams::kRefused) {
    return EndStream(agent, session, code == kOk ? kUnimplemented : code, false);
  }
  Note("network", absl::StrCat(agent->name, " has a stream that leads nowhere"));
  OnAgent(agent, &agent::AgentCore::OnConnected, "");
  if (machine.streams == Machine::Streams::kHang) return;
  DeliverAfter(hardships_.Skewed(kLoopbackDelay, kLongestStream), agent,
               [this, agent, session, code] { EndStream(agent, session, code, true); });
}

// Reads the final status of a gRPC call as the agent's session does.
void World::EndStream(AgentProcess* agent, uint64_t attempt, int code, bool was_open) {
  if (agent->attempt != attempt) return;
  ++agent->attempt;
  const int refused = rendezvous::RefusalCode(code);
  agent->host->refused_elsewhere |= refused != 0 && !IsSet(agent->core.memory().epoch());
  const std::string why =
      rendezvous::DescribeSessionError({code, "the stream was reset", was_open, ""}, "the primary at node-0:1");
  OnAgent(agent, &agent::AgentCore::OnDisconnected, why, refused);
}

}  // namespace muster::simulation
