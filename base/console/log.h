// Our own log, one line each: "2026-11-21 04:13:59.123 muster: [host] text", or one JSON object that clouds read.
// Colour only on a terminal and without NO_COLOR. Thread-safe; never blocks once a writer is given.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/time/time.h"
#include "base/console/writer.h"
#include "base/note.h"

namespace muster {

struct LogOptions {
  Severity level = Severity::kInfo;  // what is below is not written
  Writer* writer = nullptr;          // outlives the log; nullptr: written at once, by the caller
  int fd = 2;
  int quiet_fd = 2;  // of what is below a warning: some clouds take all of standard error for errors
  bool json = false;
  // In each JSON line; empty: left out.
  std::string run_id = "";
  std::string host = "";
};

// What JSON lines say of the writer; -1: not known, and left out.
struct LogContext {
  int node = -1;  // its number in the round, else its place
  int64_t round = -1;
};

// "debug", "info", "warning" (or "warn"), "error". False: none of them.
bool ParseSeverity(std::string_view text, Severity* severity);

// Call before the first other thread logs. Until then everything from kInfo on goes to standard error at once.
void InitLog(const LogOptions& options);

// Holds until the next one. Thread-safe.
void SetLogContext(const LogContext& context);

// part: "host", "agent" or "coordinator". text: one line, and what would end or colour it is shown as \n, \x1b;
// where lines are JSON, it may be several.
void Log(Severity severity, std::string_view part, std::string_view text, const NoteSubject& subject = {});
inline void Log(std::string_view part, const Note& note) { Log(note.severity, part, note.text, note.subject); }

bool LogsJson();

// {"severity":"INFO","time":"2026-11-21T04:13:59.123Z","message":"text","part":"host","node":1,...}, for tests.
struct JsonLine {
  Severity severity = Severity::kInfo;
  absl::Time time;
  std::string_view part;
  std::string_view text;
  NoteSubject subject = {};
  std::string_view run_id = "";
  std::string_view host = "";
  LogContext context = {};
};
std::string FormatJson(const JsonLine& line);

}  // namespace muster
