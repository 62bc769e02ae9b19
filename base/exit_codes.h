// The exit codes that muster chooses itself; a worker's exit code is passed through unchanged. The README and
// `muster --help` explain them to users.
#pragma once

namespace muster {

inline constexpr int kExitUsage = 64;           // wrong command line
inline constexpr int kExitBadEnvironment = 65;  // a variable or the platform's data is wrong
inline constexpr int kExitUnavailable = 69;     // no coordinator, too few nodes, or too many node losses
inline constexpr int kExitFault = 70;           // an internal error of muster
inline constexpr int kExitLeft = 75;            // this node was asked to leave
inline constexpr int kExitRefused = 77;         // the coordinator refused this node
inline constexpr int kExitNoProgress = 93;
inline constexpr int kExitNotExecutable = 126;
inline constexpr int kExitNotFound = 127;
inline constexpr int kExitSignalBase = 128;  // 128 + the signal's number
inline constexpr int kExitCancelled = 130;   // cancelled at the terminal

}  // namespace muster
