#include "rendezvous/transport/received_directive.h"

#include <cstdint>

#include "absl/status/status.h"
#include "base/wire/ids.h"

namespace muster::rendezvous {
namespace {

template <typename Message>
bool Parse(std::string_view bytes, Message* message) {
  return bytes.size() <= INT32_MAX && message->ParseFromArray(bytes.data(), static_cast<int>(bytes.size()));
}

absl::Status NoDirective() { return absl::InvalidArgumentError("it sent something that is no order"); }

}  // namespace

absl::StatusOr<v1::Directive> ReadDirective(std::string_view bytes) {
  v1::DirectiveHead head;
  if (!Parse(bytes, &head)) return NoDirective();
  v1::Directive directive;
  if (head.protocol() == kProtocol) {
    if (!Parse(bytes, &directive)) return NoDirective();
    return directive;
  }
  directive.set_protocol(head.protocol());
  if (head.has_refused()) *directive.mutable_refused() = head.refused();
  return directive;
}

}  // namespace muster::rendezvous
