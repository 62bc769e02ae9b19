// What an agent learns from the coordinator's directives. It is in the memory that goes to the host with the next
// directive, so that the host stores it and the agents after this one know it. Pure.
#pragma once

#include "base/core/time.h"
#include "muster/v1/host.pb.h"
#include "muster/v1/rendezvous.pb.h"

namespace muster::agent {

// What each obeyed directive says, whatever its order.
void LearnDirective(BootTime now, const v1::Directive& directive, v1::Memory* memory);

// What its order says. is_ready: this node could start a round now.
void LearnOrder(BootTime now, const v1::Directive& directive, bool is_ready, v1::Memory* memory);

// When the primary of the newest round ended. sent: when this node sent the status that the directive echoes.
void LearnPrimaryEnded(BootTime sent, const v1::Round& greatest, v1::Memory* memory);

// Whether it stops a round that this node knows and that no earlier STOP has stopped.
bool IsNewStop(const v1::Stop& stop, const v1::Memory& memory);

}  // namespace muster::agent
