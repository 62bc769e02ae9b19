#include "tests/simulation/sidecars.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/exit_codes.h"
#include "tests/simulation/delays.h"

namespace muster::simulation {
namespace {

constexpr Micros kTickPeriod = 100 * kMillisecond;
constexpr int kWholeSidecarPercent = 30;  // of the agents' deaths: that of their container

}  // namespace

// How long the platform takes to start a container again.
Micros Sidecars::Away() {
  const Micros within = scenario_.sidecars.returns_within;
  return env_->hardships().Between(kMillisecond,
                                   std::max(kMillisecond, env_->healed() ? std::min(within, kSecond) : within));
}

HostProcess* Sidecars::HostIn(const Pod& pod) const {
  const auto& hosts = cluster_->hosts();
  const auto found = std::find_if(hosts.rbegin(), hosts.rend(), [&](const auto& host) {
    return host->machine == pod.machine && host->place == pod.place;
  });
  return found == hosts.rend() ? nullptr : found->get();
}

Sidecars::Sidecar* Sidecars::Current(const Pod& pod) const {
  const auto found = std::find_if(sidecars_.rbegin(), sidecars_.rend(),
                                  [&](const auto& sidecar) { return sidecar->pod == pod && sidecar->alive; });
  return found == sidecars_.rend() ? nullptr : found->get();
}

// ---- the platform

void Sidecars::Serve(HostProcess* host) {
  host->on_agent_end = [this](AgentProcess* agent) { OnAgentEnded(agent); };
  host->on_link_end = [this](AgentProcess* agent) { OnLinkClosed(agent); };
  host->on_container_end = [this, host] {
    Sidecar* sidecar = Current({host->machine, host->place});
    if (sidecar != nullptr && sidecar->agent == host->agent) Feed(sidecar, &agent::SidecarCore::OnHostEnded);
  };
  const Pod pod{host->machine, host->place};
  if (Current(pod) == nullptr) env_->scheduler().After(Away(), [this, pod] { Start(pod); });
}

void Sidecars::Start(Pod pod) {
  if (Current(pod) != nullptr || !pod.machine->up) return;
  sidecars_.push_back(std::make_unique<Sidecar>(pod));
  Sidecar* sidecar = sidecars_.back().get();
  sidecar->driver.emplace(
      &sidecar->core,
      CoreDriver<agent::SidecarCore, agent::SidecarEffect>::Shell{
          .clock = [this, sidecar] { return sidecar->pod.machine->BootAt(env_->now()); },
          .carry_out = [this, sidecar](const agent::SidecarEffect& effect) { CarryOut(sidecar, effect); },
          .log =
              [this, sidecar](const muster::Note& note) {
                env_->Note("sidecar", absl::StrCat("of place ", sidecar->pod.place, ": ", note.text));
              }});
  Feed(sidecar, &agent::SidecarCore::Begin);
  Tick(sidecar);
}

void Sidecars::AddAnother(const HostProcess& host) {
  const Pod pod{host.machine, host.place};
  Sidecar* first = Current(pod);
  if (first == nullptr) return;
  env_->Note("sidecar", absl::StrCat("another one for ", host.name));
  first->superseded = true;
  first->alive = false;  // so that Start() makes the next one
  Start(pod);
  first->alive = true;
}

void Sidecars::Tick(Sidecar* sidecar) {
  if (!sidecar->alive) return;
  if (!sidecar->pod.machine->up) return End(sidecar);
  if (sidecar->called != nullptr && !sidecar->called->alive) NotReached(sidecar);
  Feed(sidecar, &agent::SidecarCore::OnTick);
  env_->scheduler().After(kTickPeriod, [this, sidecar] { Tick(sidecar); });
}

// The process ends, and with it its container. The platform starts it again while there is a host.
void Sidecars::End(Sidecar* sidecar) {
  if (!sidecar->alive) return;
  sidecar->alive = false;
  for (AgentProcess* each : {sidecar->agent, sidecar->welcomed}) {
    if (each != nullptr) deaths_->KillAgent(each);
  }
  const Pod pod = sidecar->pod;
  if (sidecar->superseded || !pod.machine->up) return;
  env_->scheduler().After(Away(), [this, pod] {
    const HostProcess* host = HostIn(pod);
    if (host != nullptr && host->alive) Start(pod);
  });
}

// ---- the shell

void Sidecars::CarryOut(Sidecar* sidecar, const agent::SidecarEffect& effect) {
  if (std::holds_alternative<agent::CallHost>(effect)) {
    Call(sidecar);
  } else if (std::holds_alternative<agent::StartAgentOver>(effect)) {
    StartAgent(sidecar);
  } else if (std::holds_alternative<agent::KillOwnAgent>(effect)) {
    AgentProcess* agent = sidecar->agent;
    if (agent != nullptr) env_->scheduler().After(kKillDelayMax, [this, agent] { deaths_->KillAgent(agent); });
  } else if (const auto* end = std::get_if<agent::EndSidecar>(&effect)) {
    env_->Note("sidecar", absl::StrCat("of place ", sidecar->pod.place, " exits ", end->exit_code));
    env_->scheduler().After(kLinkDelay, [this, sidecar] { End(sidecar); });
  }
}

void Sidecars::Call(Sidecar* sidecar) {
  const uint64_t call = ++sidecar->calls;
  HostProcess* host = HostIn(sidecar->pod);
  sidecar->called = host;
  env_->scheduler().After(kLinkDelay, [this, sidecar, host, call] {
    if (!sidecar->alive || call != sidecar->calls) return;
    if (sidecar->superseded) {
      return Feed(sidecar, &agent::SidecarCore::OnRefused, kExitRefused, "another sidecar has come since");
    }
    if (host == nullptr || !host->alive) return NotReached(sidecar);
    execution_->Deliver(host, [sidecar, host, call] {
      if (sidecar->alive && call == sidecar->calls) host->Feed(&host::HostCore::OnAgentCame);
    });
  });
}

void Sidecars::NotReached(Sidecar* sidecar) {
  sidecar->called = nullptr;
  const HostProcess* host = HostIn(sidecar->pod);
  std::optional<agent::HostResult> left;
  if (host != nullptr && host->finish.has_value()) left = {host->id(), host->finish->exit_code};
  Feed(sidecar, &agent::SidecarCore::OnNotReached, "nobody listens", left);
}

void Sidecars::OnWelcome(AgentProcess* agent, Micros start_time) {
  Sidecar* sidecar = Current({agent->machine, agent->host->place});
  if (sidecar == nullptr || sidecar->called != agent->host) return deaths_->KillAgent(agent);  // it has hung up
  if (sidecar->welcomed != nullptr) deaths_->KillAgent(sidecar->welcomed);
  sidecar->called = nullptr;
  sidecar->welcomed = agent;
  sidecar->start_time = start_time;
  env_->scheduler().After(kLinkDelay, [this, sidecar, agent] {
    if (sidecar->welcomed == agent) Feed(sidecar, &agent::SidecarCore::OnWelcome, agent->host->id(), 0);
  });
}

void Sidecars::StartAgent(Sidecar* sidecar) {
  AgentProcess* agent = sidecar->agent = std::exchange(sidecar->welcomed, nullptr);
  if (agent == nullptr || !agent->alive) return Feed(sidecar, &agent::SidecarCore::OnAgentEnded);
  const bool fails = !env_->healed() && env_->hardships().Chance(scenario_.troubles.agent_fails_percent);
  if (fails) {
    sidecar->agent = nullptr;
    ++agent->host->fate.agents_struck;
    deaths_->KillAgent(agent);
    return Feed(sidecar, &agent::SidecarCore::OnAgentNotStarted, "no process is to be had");
  }
  env_->scheduler().After(sidecar->start_time, [this, agent] {
    if (agent->alive) execution_->Start(agent, env_->prng().Between(1, kFirstTickMax));
  });
}

void Sidecars::OnLinkClosed(AgentProcess* agent) {
  for (const auto& sidecar : sidecars_) {
    if (sidecar->agent == agent) Feed(sidecar.get(), &agent::SidecarCore::OnLinkClosed);
  }
}

void Sidecars::OnAgentEnded(AgentProcess* agent) {
  for (size_t i = 0; i < sidecars_.size(); ++i) {
    Sidecar* sidecar = sidecars_[i].get();
    if (sidecar->agent != agent) continue;
    sidecar->agent = nullptr;
    if (!sidecar->alive) continue;
    if (!env_->healed() && env_->hardships().Chance(kWholeSidecarPercent)) return End(sidecar);
    env_->scheduler().After(kReapDelay, [this, sidecar] { Feed(sidecar, &agent::SidecarCore::OnAgentEnded); });
  }
}

}  // namespace muster::simulation
