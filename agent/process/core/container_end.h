// How the container of a host ended, as its agent can tell from outside. Pure.
#pragma once

#include <string>

#include "muster/v1/host.pb.h"

namespace muster::agent {

// Share of the limit from which on the kernel is suspected. The host reports its memory about once a second, so
// the last value is older than a quick end.
inline constexpr int kSuspectPercent = 90;

// A clause: "its training container ended", with the suspicion if there is reason for it. last: the host's last
// status.
std::string HowContainerEnded(const v1::HostStatus& last);

}  // namespace muster::agent
