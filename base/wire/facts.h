// The facts of a node that the coordinator compares (AgentStatus.facts).
#pragma once

namespace muster {

// What follows this character in a value is shown, but not compared: the path of an interpreter.
inline constexpr char kNotCompared = '\x1f';

// Facts that a node leaves out if it cannot tell them, or if it is an older muster: it is not compared then.
// Another fact that is missing counts as "not set".
inline constexpr char kPythonFact[] = "the workers' Python";
inline constexpr char kScriptFact[] = "the script's hash at the node's start";  // the file may change later

}  // namespace muster
