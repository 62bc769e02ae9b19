// Our own log, one line each: "2026-11-21 04:13:59.123 muster: [host] text". Colour only on a terminal and without
// NO_COLOR. Thread-safe; never blocks once a writer is given.
#pragma once

#include <string>
#include <string_view>

#include "agent/host/writer.h"
#include "proto/base/note.h"

namespace muster {

struct LogOptions {
  Severity level = Severity::kInfo;  // what is below is not written
  host::Writer* writer = nullptr;    // outlives the log; nullptr: written at once, by the caller
  int fd = 2;
};

// "debug", "info", "warning" (or "warn"), "error". False: none of them.
bool ParseSeverity(std::string_view text, Severity* severity);

// Call before the first other thread logs. Until then everything from kInfo on goes to standard error at once.
void InitLog(const LogOptions& options);

// part: "host", "agent" or "coordinator". text: one line.
void Log(Severity severity, std::string_view part, std::string_view text);
inline void Log(std::string_view part, const Note& note) { Log(note.severity, part, note.text); }

}  // namespace muster
