// The bytes of a directive as they have come from the network. Pure.
#pragma once

#include <string_view>

#include "absl/status/statusor.h"
#include "muster/v1/rendezvous.pb.h"

namespace muster::rendezvous {

// A directive of another protocol is read for what all protocols have in common alone (DirectiveHead).
// InvalidArgument: it is no directive.
absl::StatusOr<v1::Directive> ReadDirective(std::string_view bytes);

}  // namespace muster::rendezvous
