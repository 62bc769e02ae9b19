// What a core wants said: the cores do not log, they return the sentence and the shell writes it.
#pragma once

#include <string>

namespace muster {

enum class Severity { kDebug, kInfo, kWarning, kError };

struct Note {
  Severity severity = Severity::kInfo;
  std::string text;  // one line, no newline
};

}  // namespace muster
