// Where a host runs, in a form that only tells whether another one runs in the same place. Any thread.
#pragma once

#include <sys/types.h>

#include <string>

#include "muster/v1/rendezvous.pb.h"

namespace muster {

// boot_id: /proc/sys/kernel/random/boot_id, 122 random bits that only processes of this machine can read.
// pid_namespace: the target of /proc/self/ns/pid. Empty if either is.
v1::Whereabouts WhereaboutsOf(const std::string& boot_id, const std::string& pid_namespace, uid_t user,
                              pid_t host);

// The hash of a process of the same machine, PID namespace and user. user: Whereabouts.user.
std::string ProcessHash(const std::string& user, pid_t pid);

}  // namespace muster
