#include "tests/simulation/detours.h"

#include <algorithm>
#include <iterator>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/exit_codes.h"
#include "base/wire/ids.h"
#include "rendezvous/transport/session_error.h"
#include "tests/simulation/delays.h"

namespace muster::simulation {
namespace {

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
bool Detours::Take(AgentProcess* agent, uint64_t attempt, Micros delay) {
  if (env_->healed()) return false;
  if (scenario_.detours.another_job_percent > 0 && env_->prng().Chance(scenario_.detours.another_job_percent)) {
    execution_->DeliverAfter(delay, agent, [this, agent, attempt] { ReachAnotherJob(agent, attempt); });
    return true;
  }
  Machine& machine = *agent->machine;
  if (env_->now() >= machine.refused_until && scenario_.detours.refused_streams_percent > 0 &&
      env_->hardships().Chance(scenario_.detours.refused_streams_percent)) {
    machine.refused_until = env_->now() + env_->hardships().Skewed(kMillisecond, kLongestTrouble);
    machine.streams = static_cast<Machine::Streams>(env_->hardships().Below(3));
  }
  if (env_->now() < machine.refused_until) {
    execution_->DeliverAfter(delay, agent, [this, agent, attempt] { RefuseStream(agent, attempt); });
    return true;
  }
  if (scenario_.detours.stale_names_percent > 0 && env_->now() >= machine.stale_until &&
      env_->hardships().Chance(scenario_.detours.stale_names_percent)) {
    machine.stale_until = env_->now() + env_->hardships().Skewed(kStaleAtLeast, kStaleAtMost);
  }
  if (env_->now() >= machine.stale_until) return false;
  env_->Note("network", absl::StrCat(agent->name, " is led to an old address"));
  // The address is unused, or belongs to a machine without a coordinator.
  if (env_->hardships().Chance(50)) {
    execution_->DeliverAfter(2 * delay, agent,
                             [agent, attempt] { agent->LoseConnection(attempt, "connection refused"); });
  }
  return true;
}

// The address or name leads to another job's coordinator, which refuses this node: by its token before the session
// begins, or by the run id of its first status.
void Detours::ReachAnotherJob(AgentProcess* agent, uint64_t attempt) {
  const Machine& machine = *agent->machine;
  if (agent->attempt != attempt || !agent->alive || machine.cut_out + machine.cut_in > 0) return;
  env_->Note("network", absl::StrCat(agent->name, " reaches another job's coordinator"));
  const uint64_t session = ++agent->attempt;
  const auto is_new = [agent] { return !IsSet(agent->core.memory().epoch()); };
  if (env_->prng().Chance(50)) {
    agent->host->fate.refused_elsewhere |= is_new();
    return agent->Feed(&agent::AgentCore::OnDisconnected, "the token is wrong", kExitRefused);
  }
  agent->Feed(&agent::AgentCore::OnConnected, "");
  v1::Directive refusal;
  refusal.mutable_id()->mutable_epoch()->set_number(env_->prng().Chance(50) ? 1 : kStrangersEpoch);
  refusal.mutable_id()->set_seq(1);
  refusal.mutable_refused()->set_exit_code(kExitRefused);
  refusal.mutable_refused()->set_reason("run id 'simulated' differs from this job's 'other'");
  execution_->DeliverAfter(env_->prng().Exponential(scenario_.network.delay) + kLoopbackDelay, agent,
                           [agent, session, refusal, is_new] {
                             if (agent->attempt != session) return;
                             agent->host->fate.refused_elsewhere |= is_new();
                             agent->Feed(&agent::AgentCore::OnDirective, refusal);
                           });
}

// The connection is established, and the stream is refused, or opens and is reset, or hangs. Data sent on it is
// lost.
void Detours::RefuseStream(AgentProcess* agent, uint64_t attempt) {
  const Machine& machine = *agent->machine;
  if (agent->attempt != attempt || !agent->alive || machine.cut_out + machine.cut_in > 0) return;
  const uint64_t session = ++agent->attempt;
  const int code = kCodes[env_->hardships().Below(std::size(kCodes))];
  if (machine.streams == Machine::Streams::kRefused) {
    return EndStream(agent, session, code == kOk ? kUnimplemented : code, false);
  }
  env_->Note("network", absl::StrCat(agent->name, " has a stream that leads nowhere"));
  agent->Feed(&agent::AgentCore::OnConnected, "");
  if (machine.streams == Machine::Streams::kHang) return;
  execution_->DeliverAfter(env_->hardships().Skewed(kLoopbackDelay, kLongestStream), agent,
                           [this, agent, session, code] { EndStream(agent, session, code, true); });
}

// Reads the final status of a gRPC call as the agent's session does.
void Detours::EndStream(AgentProcess* agent, uint64_t attempt, int code, bool was_open) {
  if (agent->attempt != attempt) return;
  ++agent->attempt;
  const int refused = rendezvous::RefusalCode(code);
  agent->host->fate.refused_elsewhere |= refused != 0 && !IsSet(agent->core.memory().epoch());
  const std::string why =
      rendezvous::DescribeSessionError({code, "the stream was reset", was_open, ""}, "the primary at node-0:1");
  agent->Feed(&agent::AgentCore::OnDisconnected, why, refused);
}

}  // namespace muster::simulation
