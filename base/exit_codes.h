// The exit codes that muster itself chooses, whichever part of it ends first; a worker's own code passes through
// beside them. What each means to people: the README, and muster --help.
#pragma once

namespace muster {

inline constexpr int kExitUsage = 64;           // something on the command line is wrong
inline constexpr int kExitBadEnvironment = 65;  // a variable or what the platform says is wrong
inline constexpr int kExitUnavailable = 69;     // no coordinator, too few nodes, a node lost once too often
inline constexpr int kExitFault = 70;           // ours
inline constexpr int kExitLeft = 75;            // asked to leave
inline constexpr int kExitRefused = 77;         // by the coordinator
inline constexpr int kExitNoProgress = 93;
inline constexpr int kExitNotExecutable = 126;
inline constexpr int kExitNotFound = 127;
inline constexpr int kExitSignalBase = 128;  // 128 + the signal's number
inline constexpr int kExitCancelled = 130;   // at the terminal

}  // namespace muster
