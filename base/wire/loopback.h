#pragma once

#include <string>

namespace muster {

// Whether this host is reached by this machine alone: localhost, 127.0.0.0/8 or ::1, also mapped into IPv6.
bool IsLoopback(const std::string& host);

}  // namespace muster
