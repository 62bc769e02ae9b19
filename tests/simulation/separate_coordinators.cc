#include "tests/simulation/separate_coordinators.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "tests/simulation/delays.h"
#include "tests/simulation/node_config.h"

namespace muster::simulation {

void SeparateCoordinators::Begin() {
  Machine* machine = cluster_->NewMachine(-1);
  cluster_->LeadNameTo(machine);
  env_->scheduler().After(env_->prng().Between(0, scenario_.faults.late_start),
                          [this, machine] { Start(machine); });
}

void SeparateCoordinators::RunAgain() {
  if (std::exchange(done_, false)) Start(cluster_->NamedMachine());
}

void SeparateCoordinators::Start(Machine* machine) {
  AloneProcess* alone = cluster_->NewAlone();
  alone->machine = machine;
  alone->name = absl::StrCat("alone", cluster_->alone().size());
  alone->on_tick = [this, alone] { Tick(alone); };
  alone->home = shell_->Open(alone, nullptr, MakeConfig(scenario_, 0, *machine));
  execution_->ScheduleTick(alone, env_->prng().Between(1, kFirstTickMax));
}

void SeparateCoordinators::Tick(AloneProcess* alone) {
  alone->home->Tick(scenario_.people_ask, scenario_.people_order);
  if (alone->home->core.MayEnd(alone->machine->BootAt(env_->now())))
    return End(alone, !cluster_->VerdictIsKnown());
  if (!alone->home->core.finished()) return;
  End(alone, !cluster_->VerdictIsKnown());  // no node that knew it is left: the platform runs the job again
}

void SeparateCoordinators::AskToEnd(AloneProcess* alone) {
  env_->Note("fault", absl::StrCat("asks ", alone->name, " to end"));
  execution_->Deliver(alone, [alone] { alone->home->Feed(&rendezvous::Coordinator::OnAskedToEnd); });
}

AloneProcess* SeparateCoordinators::current() const {
  const auto& all = cluster_->alone();
  for (auto it = all.rbegin(); it != all.rend(); ++it) {
    if ((*it)->alive && (*it)->machine == cluster_->NamedMachine()) return it->get();
  }
  return nullptr;
}

Machine* SeparateCoordinators::Move() {
  MoveTo(cluster_->NewMachine(-1));
  Start(cluster_->NamedMachine());
  return cluster_->NamedMachine();
}

Machine* SeparateCoordinators::StartSecond() {
  Machine* machine = cluster_->NewMachine(-1);
  Start(machine);
  return machine;
}

void SeparateCoordinators::EndSecond(const Machine* machine) {
  for (size_t i = 0; i < cluster_->alone().size(); ++i) {
    AloneProcess* alone = cluster_->alone()[i].get();
    if (alone->machine == machine) End(alone, false);
  }
}

void SeparateCoordinators::EndAllButNamed() {
  for (size_t i = 0; i < cluster_->alone().size(); ++i) {
    AloneProcess* alone = cluster_->alone()[i].get();
    if (alone->alive && alone->machine != cluster_->NamedMachine()) End(alone, false);
  }
}

void SeparateCoordinators::LeadNamesHome() {
  for (const auto& machine : cluster_->machines()) machine->name_leads_to = nullptr;
}

void SeparateCoordinators::MoveTo(Machine* machine) {
  env_->Note("platform", absl::StrCat("the coordinator is now at m", machine->id));
  cluster_->LeadNameTo(machine);
}

void SeparateCoordinators::MoveBack(Machine* machine) {
  MoveTo(machine);
  if (current() == nullptr && !cluster_->VerdictIsKnown()) Start(machine);
}

void SeparateCoordinators::End(AloneProcess* alone, bool comes_again) {
  if (!alone->alive) return;
  env_->Note("death", absl::StrCat(alone->name, comes_again ? "" : ", for good: the job is over"));
  alone->alive = false;
  alone->inbox.clear();
  network_->CloseAllOf(*alone->home);
  if (alone->machine != cluster_->NamedMachine()) return;  // its name now leads elsewhere
  done_ = !comes_again;
  if (!comes_again) return;
  const Micros least = env_->healed() ? 0 : scenario_.faults.replace_low;
  env_->scheduler().After(env_->prng().Skewed(least + 1, env_->healed() ? kSecond : scenario_.faults.replace_high),
                          [this] { Start(cluster_->NamedMachine()); });
}

}  // namespace muster::simulation
