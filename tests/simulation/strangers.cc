#include "tests/simulation/strangers.h"

#include <string>

#include "base/wire/ids.h"
#include "base/wire/ranges.h"

namespace muster::simulation {
namespace {

constexpr size_t kWords = 6'000;                                   // bytes of its run id
constexpr auto kLongestName = static_cast<size_t>(kMaxShortText);  // what is wrong of it is something else

}  // namespace

// The close of its stream is reported too, as a shell does.
void Strangers::Knock() {
  CoordinatorHome* home = cluster_->CurrentHome();
  if (home == nullptr || !home->owner->runs()) return;
  const rendezvous::StreamId stream = home->next_stream++;
  const v1::AgentStatus status = Draw(*home);
  const rendezvous::State before = home->core.state();
  rendezvous::Effects effects;
  home->core.OnStatus(home->owner->machine->BootAt(env_->now()), stream, status, &effects);
  checks_->invariants.OnStranger(*home, before, stream, effects);
  execution_->DeliverAfter(env_->prng().Between(0, kSecond), home->owner,
                           [home, stream] { home->Feed(&rendezvous::Coordinator::OnClosed, stream); });
}

// A stranger may even have the name of a host of the job.
v1::AgentStatus Strangers::Draw(const CoordinatorHome& home) {
  v1::AgentStatus status;
  status.set_run_id("simulated");
  status.set_protocol(kProtocol);
  status.set_host_id("stranger");
  status.set_hostname(std::string(kLongestName, 'x'));
  status.set_version(std::string(kLongestName, 'v'));
  status.mutable_id()->set_agent_number(1);
  status.mutable_id()->set_seq(1);
  if (!home.sessions.empty() && env_->prng().Chance(50)) {
    status.set_host_id(home.sessions.begin()->second->agent->host->id());
  }
  status.mutable_epoch()->set_number(kStrangersEpoch);
  status.mutable_epoch()->set_random(1);
  status.set_cancelled(env_->prng().Chance(50));
  status.set_at_primary(env_->prng().Chance(50));
  if (env_->prng().Chance(50)) status.mutable_verdict()->set_exit_code(1);
  status.set_phase(v1::PHASE_READY);
  switch (env_->prng().Below(4)) {
    case 0:
      status.set_run_id(std::string(kWords, 'r'));
      break;
    case 1:
      status.set_protocol(kProtocol + 1);
      break;
    case 2:
      status.set_phase(static_cast<v1::Phase>(v1::Phase_MAX + 1));
      break;
    default:
      status.mutable_last()->set_restart_count(-1);
  }
  return status;
}

}  // namespace muster::simulation
