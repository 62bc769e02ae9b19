// muster's log, one line per message: "2026-11-21 04:13:59.123 muster: [host] text", or one JSON object that
// clouds can read. Colour only on a terminal and without NO_COLOR. Thread-safe; does not block once it has a
// writer.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/time/time.h"
#include "base/console/writer.h"
#include "base/core/note.h"

namespace muster {

struct LogOptions {
  Severity level = Severity::kInfo;  // lower severities are dropped
  Writer* writer = nullptr;          // must outlive the log; nullptr: the caller's thread writes
  int fd = 2;
  int quiet_fd = 2;  // for severities below a warning: some clouds treat all of standard error as errors
  bool json = false;
  // In each JSON line; empty: left out.
  std::string run_id = "";
  std::string host = "";
};

// The writing node's fields of JSON lines; -1: not known, and left out.
struct LogContext {
  int node = -1;  // its rank in the round, else its place
  int64_t round = -1;
};

// "debug", "info", "warning" (or "warn"), "error". False: none of them.
bool ParseSeverity(std::string_view text, Severity* severity);

// Call while no other thread logs. Before the first call, everything from kInfo on goes to standard error
// directly.
void InitLog(const LogOptions& options);

// Valid until the next call. Thread-safe.
void SetLogContext(const LogContext& context);

// part: "host", "agent" or "coordinator". text: one line; characters that would end or colour the line are escaped
// as \n or \x1b. In JSON the text may have several lines.
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
