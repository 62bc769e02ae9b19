// The facts of a node that the coordinator compares (AgentStatus.facts).
#pragma once

namespace muster {

// What follows this character in a value is shown, but not compared: the path of an interpreter.
inline constexpr char kNotCompared = '\x1f';

}  // namespace muster
