// Linux namespaces, by the names that /proc gives them.
#pragma once

namespace muster {

// The first PID namespace of a machine: its number is fixed in the kernel (include/linux/proc_ns.h).
inline constexpr char kFirstPidNamespace[] = "pid:[4026531836]";

}  // namespace muster
