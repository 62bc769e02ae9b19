// The Linux namespaces of this process. Any thread.
#pragma once

#include <unistd.h>

#include <string>

#include "base/wire/namespaces.h"

namespace muster {

// kind: "pid", "net", "mnt". For example "net:[4026531840]"; empty: unknown.
inline std::string OwnNamespace(const std::string& kind) {
  char name[64];
  const ssize_t length = readlink(("/proc/self/ns/" + kind).c_str(), name, sizeof(name));
  return length > 0 ? std::string(name, static_cast<size_t>(length)) : "";
}

// Whether this process is in a container, as far as its PID namespace tells.
inline bool IsInContainer() { return OwnNamespace("pid") != kFirstPidNamespace; }

}  // namespace muster
