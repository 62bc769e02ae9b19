#include "agent/host/agent_link.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/console/log.h"

namespace muster::host {
namespace {

constexpr char kPart[] = "host";

}  // namespace

AgentLink::AgentLink(EventLoop* loop, Events events) : loop_(loop), events_(std::move(events)) {}

void AgentLink::Attach(uint64_t number, int fd) {
  number_ = number;
  link_ = std::make_unique<FramedLink>(
      loop_, fd, [this, number](std::string_view payload) { OnFrame(number, payload); },
      [this, number](const std::string& why) {
        Log(Severity::kDebug, kPart, absl::StrCat("link to agent ", number, ": ", why));
        OnClosed(number);
      });
}

void AgentLink::Send(const v1::HostStatus& status) {
  if (link_) link_->Send(status);
}

void AgentLink::OnFrame(uint64_t number, std::string_view payload) {
  v1::HostDirective directive;
  if (!directive.ParseFromArray(payload.data(), static_cast<int>(payload.size()))) {
    Log(Severity::kError, kPart,
        absl::StrCat("agent ", number, " sent a message that cannot be parsed: closing its link"));
    OnClosed(number);
    return;
  }
  events_.on_directive(directive);
}

void AgentLink::OnClosed(uint64_t number) {
  if (number == number_) link_.reset();
  events_.on_closed(number);
}

}  // namespace muster::host
