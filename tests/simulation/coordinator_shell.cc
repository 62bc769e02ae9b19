#include "tests/simulation/coordinator_shell.h"

#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"

namespace muster::simulation {

CoordinatorHome* CoordinatorShell::Open(Process* owner, HostProcess* primary, const v1::NodeConfig& config) {
  rendezvous::CoordinatorOptions options = rendezvous::OptionsFrom(config);
  if (scenario_.deferral.many_hosts > 0) {
    options.many_hosts = static_cast<size_t>(scenario_.deferral.many_hosts);
    options.decision_spacing = absl::Microseconds(scenario_.deferral.decision_spacing);
  }
  if (primary != nullptr) options.host_began = primary->machine->BootAt(primary->born);
  CoordinatorHome* home = cluster_->NewHome(owner, primary, std::move(options));
  Drive(home);
  env_->Note("coordinator", absl::StrCat("c", home->id, " opens in ", owner->name));
  return home;
}

void CoordinatorShell::Drive(CoordinatorHome* home) {
  home->after_event = [this, home] { NoteRelease(home); };
  home->driver.emplace(&home->core,
                       rendezvous::CoordinatorDriver::Shell{
                           .clock = [this, home] { return home->owner->machine->BootAt(env_->now()); },
                           .carry_out =
                               [this, home](const rendezvous::Effect& effect) {
                                 if (home->owner->machine->up) CarryOut(home, effect);
                               },
                           .log =
                               [this, home](const muster::Note& note) {
                                 if (home->owner->machine->up) Say(*home, note);
                               }});
}

void CoordinatorShell::CarryOut(CoordinatorHome* home, const rendezvous::Effect& effect) {
  NoteRelease(home);
  if (const auto* e = std::get_if<rendezvous::SendDirective>(&effect)) {
    const auto it = home->sessions.find(e->stream);
    if (it != home->sessions.end()) SendDirective(home, it->second, e->directive);
  } else if (const auto* e = std::get_if<rendezvous::CloseStream>(&effect)) {
    const auto it = home->sessions.find(e->stream);
    if (it == home->sessions.end()) return;
    Session* session = it->second;
    env_->Note("coordinator",
               absl::StrCat("c", home->id, " closes the stream of ", session->agent->name, ": ", e->reason));
    network_->CloseCoordinatorEnd(session);
    if (scenario_.network.close_is_echoed) {
      execution_->DeliverAfter(100, home->owner, [home, stream = e->stream] {
        home->Feed(&rendezvous::Coordinator::OnClosed, stream);
      });
    }
  }
}

void CoordinatorShell::Say(const CoordinatorHome& home, const muster::Note& note) {
  env_->Note("coordinator", absl::StrCat("c", home.id, ": ", note.text));
  if (note.subject.event == std::string_view(events::kNodeLost))
    checks_->invariants.OnNodeLost(home, static_cast<int>(note.subject.node_rank));
}

void CoordinatorShell::NoteRelease(CoordinatorHome* home) {
  const bool releasing = home->core.state() == rendezvous::State::kReleasing;
  if (releasing && home->releasing_since < 0) home->releasing_since = env_->now();
}

void CoordinatorShell::SendDirective(CoordinatorHome* home, Session* session, const v1::Directive& directive) {
  const bool is_new = directive.has_run() && !checks_->invariants.Knows(directive.run().id());
  // The platform must end an old primary that makes new rounds beside its replacement.
  if (is_new && home->host != nullptr && home->host->fate.zombie) return deaths_->PowerOff(home->owner->machine);
  HostProcess* host = session->agent->host;
  checks_->invariants.OnDirectiveSent(*home, *host, directive, session->agent_open);
  checks_->policies.OnDirectiveSent(*session, directive);
  checks_->conduct.OnDirectiveSent(*session, directive);
  session->refused = directive.has_refused();
  if (directive.has_release()) host->fate.released = true;
  if (directive.has_refused() && !directive.refused().later()) host->fate.refused = true;
  if (is_new) checks_->conduct.OnNewRound(*home, directive.run());
  if (directive.has_verdict()) checks_->conduct.OnVerdict(*home, directive.verdict());
  listener_(directive, is_new);
  network_->SendDown(session, directive);
}

}  // namespace muster::simulation
