// Signals by name, as people know them.
#pragma once

#include <string>

namespace muster {

// "SIGSEGV"; empty for a signal without a name.
std::string SignalName(int signal);

// "SIGTERM"; "signal 42" for a signal without a name.
std::string DescribeSignal(int signal);

// name: with or without SIG, in any case, such as "usr1". 0: there is no such name.
int SignalNumber(std::string name);

}  // namespace muster
