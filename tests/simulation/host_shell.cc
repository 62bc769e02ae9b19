#include "tests/simulation/host_shell.h"

#include <algorithm>
#include <csignal>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "base/core/check.h"
#include "tests/simulation/delays.h"
#include "tests/simulation/node_config.h"

namespace muster::simulation {
namespace {

constexpr Micros kAgentStartMax = 30 * kMillisecond;
constexpr int kOutputHangsPercent = 5;
constexpr Micros kFlushMax = 5 * kMillisecond;

}  // namespace

void HostShell::Drive(HostProcess* host) {
  host->on_tick = [this, host] { Tick(host); };
  host->driver.emplace(&host->core, host::HostDriver::Shell{
                                        .clock = [this, host] { return host->machine->BootAt(env_->now()); },
                                        .carry_out =
                                            [this, host](const host::Effect& effect) {
                                              LookAtDeadline(host);
                                              CarryOut(host, effect);
                                            },
                                        .log =
                                            [this, host](const muster::Note& note) {
                                              env_->Note("host", absl::StrCat(host->name, ": ", note.text));
                                              checks_->conduct.OnLine(*host, note);
                                              host->shell.out_of_time |=
                                                  note.subject.event == std::string_view(events::kWorkersKilled);
                                            }});
  if (!host->split()) return;
  host->end_is_proved = !env_->hardships().Chance(scenario_.sidecars.unproved_percent);
  sidecars_->Serve(host);
}

void HostShell::Tick(HostProcess* host) {
  workers_->CollectEnded(host);
  StepWallClock(host);
  LookAtDeadline(host);
  hangs_->Look(host);
  const absl::Time wall = host->machine->WallAt(env_->now());
  host->Feed(&host::HostCore::OnWallClock, wall);
  host->Feed(&host::HostCore::OnTick);
}

void HostShell::CarryOut(HostProcess* host, const host::Effect& effect) {
  if (const auto* e = std::get_if<host::StartAgent>(&effect)) {
    StartAgent(host, e->number);
  } else if (std::holds_alternative<host::KillAgent>(effect)) {
    env_->Note("host", absl::StrCat(host->name, " kills its agent"));
    AgentProcess* agent = host->agent;
    host->link_open = false;
    if (host->split()) {
      CloseLinkTo(agent);
      return sidecars_->OnLinkClosed(agent);
    }
    env_->scheduler().After(env_->prng().Between(50, kKillDelayMax), [this, agent] { deaths_->KillAgent(agent); });
  } else if (const auto* e = std::get_if<host::SendStatus>(&effect)) {
    const RoundKey round = KeyOf(e->status.started());
    if (e->status.outcome() == v1::OUTCOME_LEASE_ENDED && host->contact.lease_ended_in != round) {
      host->contact.lease_ended_in = round;
      checks_->conduct.OnLeaseEnded(*host);
    }
    const v1::Outcome outcome = e->status.outcome();
    host->contact.stopped_itself = outcome == v1::OUTCOME_FAILED || outcome == v1::OUTCOME_LEASE_ENDED;
    checks_->conduct.OnHostStatus(*host, e->status);
    SendToAgent(host, e->status);
  } else if (const auto* e = std::get_if<host::SpawnWorkers>(&effect)) {
    if (e->forks) SayWhetherForked(host);
    workers_->Spawn(host, e->round);
  } else if (const auto* e = std::get_if<host::StartPreloader>(&effect)) {
    StartPreloader(host, e->modules);
  } else if (std::holds_alternative<host::ReadLearned>(effect)) {
    ReadLearned(host);
  } else if (std::holds_alternative<host::StopPreloader>(effect)) {
    StopPreloader(host);
  } else if (const auto* e = std::get_if<host::SignalWorkers>(&effect)) {
    sweeps_->Signal(host, e->signal);
  } else if (const auto* e = std::get_if<host::StopWorkers>(&effect)) {
    sweeps_->Signal(host, e->signal);
  } else if (const auto* e = std::get_if<host::SignalRanks>(&effect)) {
    host->Feed(&host::HostCore::OnRanksSignalled, *e, static_cast<int>(host->workers.size()));
  } else if (const auto* e = std::get_if<host::TakeSnapshot>(&effect)) {
    hangs_->TakeSnapshot(host, e->first_rank);
  } else if (const auto* e = std::get_if<host::EndHungWorker>(&effect)) {
    hangs_->EndWorker(host, e->local_rank);
  } else if (std::holds_alternative<host::Sweep>(effect)) {
    sweeps_->Sweep(host);
  } else if (std::holds_alternative<host::GatherRoundOutput>(effect)) {
    execution_->DeliverAfter(LastOutputDelay(), host,
                             [host] { host->Feed(&host::HostCore::OnRoundOutput, "bye"); });
  } else if (std::holds_alternative<host::GatherCheckOutput>(effect)) {
    execution_->DeliverAfter(LastOutputDelay(), host,
                             [host] { host->Feed(&host::HostCore::OnCheckOutput, "bye"); });
  } else if (const auto* e = std::get_if<host::SetKernelTimer>(&effect)) {
    SetKernelTimer(host, e->at);
  } else if (std::holds_alternative<host::RenewOffer>(effect)) {
    RenewOffer(host);
  } else if (const auto* e = std::get_if<host::StartCheck>(&effect)) {
    StartCheck(host, e->check);
  } else if (std::holds_alternative<host::AskGpus>(effect)) {
    AskGpus(host);
  } else if (const auto* e = std::get_if<host::Finish>(&effect)) {
    Finish(host, *e);
  }
}

void HostShell::RenewOffer(HostProcess* host) {
  const int percent = scenario_.troubles.no_port_percent;
  const bool chance = percent > 0 && env_->hardships().Chance(percent);
  const bool none = !env_->healed() && (chance || host->place == scenario_.script.portless_place);
  const auto port = none ? 0 : static_cast<uint32_t>(next_port_++);
  execution_->DeliverAfter(env_->prng().Between(100, 2 * kMillisecond), host,
                           [host, port] { host->Feed(&host::HostCore::OnOffer, port); });
}

void HostShell::Finish(HostProcess* host, const host::Finish& finish) {
  env_->Note("host",
             absl::StrCat(host->name, " finishes: ", finish.exit_code, " (", finish.origin, ") ", finish.reason));
  host->finish = finish;
  LookAtDeadline(host);
  checks_->invariants.OnFinish(*host, finish);
  checks_->conduct.OnFinish(*host, finish);
  execution_->DeliverAfter(env_->prng().Between(100, kFlushMax), host, [this, host] { deaths_->KillHost(host); });
}

// Until the last output of dead processes is read: longer if the console's reader or a file system hangs.
Micros HostShell::LastOutputDelay() {
  const bool hangs = env_->hardships().Chance(kOutputHangsPercent);
  return hangs ? absl::ToInt64Microseconds(host::kLastOutputLimit)
               : env_->hardships().Between(kReapDelay, 2 * kMillisecond);
}

void HostShell::StartAgent(HostProcess* host, uint64_t number) {
  if (host->agent != nullptr && host->link_open && host->agent->alive) {
    CloseLinkTo(host->agent);
    if (host->split()) sidecars_->OnLinkClosed(host->agent);
  }
  const bool fails = !host->split() && !env_->healed() && scenario_.troubles.agent_fails_percent > 0 &&
                     env_->hardships().Chance(scenario_.troubles.agent_fails_percent);
  if (fails) return FailToStartAgent(host, number);
  AgentProcess* agent = cluster_->NewAgent(host, number);
  agent->machine = host->machine;
  agent->pid = host->machine->next_pid++;
  agent->name = absl::StrCat(host->name, "/a", number);
  agent->started = false;
  agent_shell_->Drive(agent);
  host->agent = agent;
  host->link_open = true;
  host->agent_starts.push_back(env_->now());
  if (host->split()) {
    if (host->fate.noticed) agent_shell_->Notice(agent);
    return sidecars_->OnWelcome(agent, DrawAgentStart());
  }
  env_->scheduler().After(DrawAgentStart(), [this, agent] {
    if (!agent->alive) return;
    execution_->Start(agent, env_->prng().Between(1, kFirstTickMax));
    if (agent->host->fate.noticed) agent_shell_->Notice(agent);
  });
}

void HostShell::CloseLinkTo(AgentProcess* agent) {
  execution_->DeliverAfter(kLinkDelay, agent, [agent] {
    agent->link_open = false;
    agent->Feed(&agent::AgentCore::OnHostLinkClosed);
  });
}

// How long an agent takes to start.
Micros HostShell::DrawAgentStart() {
  Micros takes = env_->prng().Between(2 * kMillisecond, kAgentStartMax);
  const Micros lookup = scenario_.detours.name_lookup;
  const bool stalls = lookup > 0 && !env_->healed();
  if (stalls) takes += env_->prng().Between(lookup * 3 / 4, lookup);
  const bool slow = scenario_.troubles.slow_agents > 0 && !env_->healed();
  return slow ? env_->hardships().Between(takes, takes + scenario_.troubles.slow_agents) : takes;
}

void HostShell::FailToStartAgent(HostProcess* host, uint64_t number) {
  host->link_open = false;
  host->agent_starts.push_back(env_->now());
  ++host->fate.agents_struck;
  execution_->DeliverAfter(kLinkDelay, host, [host, number] {
    host->Feed(&host::HostCore::OnAgentFailed, number, "no process is to be had");
  });
}

void HostShell::SendToAgent(HostProcess* host, const v1::HostStatus& status) {
  AgentProcess* agent = host->agent;
  if (agent == nullptr || !host->link_open) return;
  execution_->DeliverAfter(kLinkDelay, agent, [agent, status = status] {
    if (!agent->link_open) return;
    agent->Feed(&agent::AgentCore::OnHostStatus, status);
  });
}

void HostShell::SetKernelTimer(HostProcess* host, std::optional<BootTime> at) {
  const uint64_t generation = ++host->shell.timer_generation;
  if (!at.has_value() || *at == absl::InfiniteFuture()) return;
  const Micros when = *at == absl::InfinitePast() ? env_->now() : host->machine->TimeOfBoot(*at);
  env_->scheduler().At(when, [this, host, generation] {
    if (!host->alive || host->shell.timer_generation != generation) return;
    env_->Note("kernel", absl::StrCat("the timer kills ", host->name));
    deaths_->KillHost(host);
  });
}

void HostShell::Signal(HostProcess* host, int signal) {
  if (signal == SIGINT) {
    host->fate.asked_to_cancel = true;
  } else {
    host->fate.asked_to_leave = true;
  }
  env_->Note("signal", absl::StrCat(host->name, " gets ", signal));
  execution_->Deliver(host, [host, signal] { host->Feed(&host::HostCore::OnSignal, signal); });
}

// ---- between rounds

void HostShell::StartCheck(HostProcess* host, host::Check check) {
  MUSTER_CHECK(!host->shell.preflight_runs, "two checks of one host");
  MUSTER_CHECK(check != host::Check::kSetup || !host->shell.is_set_up, "a second setup after one that succeeded");
  host->shell.preflight_runs = true;
  const uint64_t number = ++host->shell.preflights;
  const bool hangs = !env_->healed() && env_->prng().Chance(scenario_.fitness.preflight_hangs_percent);
  const bool fails = !env_->healed() && env_->prng().Chance(scenario_.fitness.preflight_fails_percent);
  env_->Note("host",
             absl::StrCat(host->name, " starts a ", check == host::Check::kSetup ? "setup" : "preflight", " that ",
                          hangs   ? "hangs"
                          : fails ? "fails"
                                  : "passes"));
  if (hangs) return;
  const host::Ending ending = fails ? workers_->DrawFailure() : host::Ending{};
  // Without faults no preflight is too slow.
  const Micros longest = env_->healed()
                             ? std::min(scenario_.fitness.preflight_time, scenario_.fitness.preflight_timeout / 2)
                             : scenario_.fitness.preflight_time;
  execution_->DeliverAfter(env_->prng().Between(kReapDelay, std::max(kReapDelay, longest)), host,
                           [host, ending, number, check] {
                             if (!host->shell.preflight_runs || number != host->shell.preflights) return;
                             host->shell.preflight_runs = false;
                             host->shell.is_set_up |= check == host::Check::kSetup && ending.ok();
                             host->Feed(&host::HostCore::OnCheckEnded, ending);
                           });
}

void HostShell::AskGpus(HostProcess* host) {
  host::GpuUsers users;
  const bool held = !env_->healed() && env_->prng().Chance(scenario_.fitness.gpus_held_percent);
  if (held) (scenario_.fitness.driver_pids ? users.old_workers : users.others).insert(env_->prng().Between(1, 3));
  if (env_->prng().Chance(2)) users.trouble = "no such tool";
  execution_->DeliverAfter(env_->prng().Between(kMillisecond, 100 * kMillisecond), host,
                           [host, users] { host->Feed(&host::HostCore::OnGpuUsers, users); });
}

void HostShell::StartPreloader(HostProcess* host, const std::vector<std::string>& modules) {
  MUSTER_CHECK(!host->shell.is_preloaded, "a second preloader");
  const uint64_t number = ++host->shell.preloaders;
  host::PreloadNews news;
  if (!env_->healed() && env_->hardships().Chance(scenario_.fitness.preload_fails_percent)) {
    constexpr host::PreloadNews::Kind kFailures[] = {host::PreloadNews::kUnsafe, host::PreloadNews::kUnusable,
                                                     host::PreloadNews::kEnded};
    auto which = env_->hardships().Below(4);
    if (which == 3 || modules.empty()) {
      // It imports for ever. Not before the first round, which would wait for longer than any node waits to join.
      if (number > 1) return;
      which = 2;
    }
    const std::string module = modules.empty() ? "" : modules.back();
    news = {.kind = kFailures[which], .why = "starts a thread", .module = module};
  }
  execution_->DeliverAfter(env_->hardships().Between(kMillisecond, scenario_.fitness.preload_time), host,
                           [this, host, number, news] {
                             if (number != host->shell.preloaders) return;
                             host->shell.is_preloaded = news.kind == host::PreloadNews::kReady;
                             host->Feed(&host::HostCore::OnPreload, news);
                             if (number == host->shell.preloaders) EndPreloaderLater(host);
                           });
}

void HostShell::StopPreloader(HostProcess* host) {
  ++host->shell.preloaders;
  host->shell.is_preloaded = false;
}

void HostShell::EndPreloaderLater(HostProcess* host) {
  if (!host->shell.is_preloaded || env_->healed()) return;
  if (!env_->hardships().Chance(scenario_.fitness.preload_fails_percent)) return;
  const uint64_t number = host->shell.preloaders;
  execution_->DeliverAfter(env_->hardships().Between(kMillisecond, 30 * kSecond), host, [host, number] {
    if (number != host->shell.preloaders) return;
    host->shell.is_preloaded = false;
    host->Feed(&host::HostCore::OnPreload, host::PreloadNews{.kind = host::PreloadNews::kEnded, .why = "a kill"});
  });
}

void HostShell::ReadLearned(HostProcess* host) {
  if (env_->hardships().Chance(20)) return;  // the worker had imported nothing yet
  execution_->DeliverAfter(env_->hardships().Between(1, kMillisecond), host, [host] {
    host->Feed(&host::HostCore::OnPreload, host::PreloadNews{.kind = host::PreloadNews::kLearned,
                                                             .names = {"torch", "torch.nn", "lightning"}});
  });
}

void HostShell::SayWhetherForked(HostProcess* host) {
  MUSTER_CHECK(host->shell.is_preloaded, "workers are to be forked from a preloader that is not ready");
  const bool fails = !env_->healed() && env_->hardships().Chance(scenario_.fitness.preload_fails_percent);
  constexpr host::PreloadNews::Kind kRefusals[] = {host::PreloadNews::kStale, host::PreloadNews::kRefused,
                                                   host::PreloadNews::kFailed};
  const host::PreloadNews news{.kind = fails ? kRefusals[env_->hardships().Below(3)] : host::PreloadNews::kForked,
                               .why = "a reason"};
  host->Feed(&host::HostCore::OnPreload, news);
}

void HostShell::StepWallClock(HostProcess* host) {
  if (scenario_.clocks.wall_steps == 0 || env_->healed() || env_->hardships().Below(200) != 0) return;
  host->machine->wall_skew = env_->hardships().Between(-scenario_.clocks.wall_steps, scenario_.clocks.wall_steps);
  host->machine->stepped_at = env_->now();
}

// Also between two ticks: a node may leave in place of a round that it is told of then.
void HostShell::LookAtDeadline(HostProcess* host) {
  const std::optional<host::StopBefore>& stop = host->options.stop_before;
  if (stop.has_value() && host->machine->WallAt(env_->now()) >= MayLeaveFrom(*stop))
    host->fate.asked_to_leave = true;
}

}  // namespace muster::simulation
