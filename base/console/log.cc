#include "base/console/log.h"

#include <spdlog/logger.h>
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/base_sink.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>

#include "absl/time/clock.h"
#include "base/io/mutex.h"
#include "base/text/text.h"
#include "nlohmann/json.hpp"

namespace muster {
namespace {

constexpr char kPattern[] = "%Y-%m-%d %H:%M:%S.%e muster: %v";
constexpr char kBarePattern[] = "%v";

// Passes each finished line to the writer; without a writer, writes it directly.
class WriterSink : public spdlog::sinks::base_sink<Mutex> {
 public:
  explicit WriterSink(const LogOptions& options)
      : options_(options), colour_(!options.json && isatty(options.fd) && std::getenv("NO_COLOR") == nullptr) {}

 protected:
  void sink_it_(const spdlog::details::log_msg& message) override {
    spdlog::memory_buf_t line;
    formatter_->format(message, line);
    std::string text(line.data(), line.size());
    if (colour_ && message.level >= spdlog::level::warn) {
      const char* const start = message.level >= spdlog::level::err ? "\033[31m" : "\033[33m";
      text.insert(text.size() - 1, "\033[0m");
      text.insert(0, start);
    }
    const int fd = message.level >= spdlog::level::warn ? options_.fd : options_.quiet_fd;
    if (options_.writer == nullptr) {
      (void)!write(fd, text.data(), text.size());
    } else {
      options_.writer->Write(fd, std::move(text));  // the writer counts dropped lines
    }
  }
  void flush_() override {}

 private:
  const LogOptions options_;
  const bool colour_;
};

spdlog::level::level_enum ToLevel(Severity severity) {
  switch (severity) {
    case Severity::kDebug:
      return spdlog::level::debug;
    case Severity::kInfo:
      return spdlog::level::info;
    case Severity::kWarning:
      return spdlog::level::warn;
    case Severity::kError:
      return spdlog::level::err;
  }
  return spdlog::level::err;
}

std::unique_ptr<spdlog::logger> MakeLogger(const LogOptions& options) {
  auto sink = std::make_shared<WriterSink>(options);
  sink->set_formatter(std::make_unique<spdlog::pattern_formatter>(options.json ? kBarePattern : kPattern,
                                                                  spdlog::pattern_time_type::local, "\n"));
  auto logger = std::make_unique<spdlog::logger>("muster", std::move(sink));
  logger->set_level(ToLevel(options.level));
  return logger;
}

// The last logger is never freed: other threads may log until the process ends.
spdlog::logger*& Current() {
  static spdlog::logger* logger = MakeLogger(LogOptions{}).release();
  return logger;
}

std::atomic<bool>& Json() {
  static std::atomic<bool> json = false;
  return json;
}

struct GuardedContext {
  Mutex mutex;
  LogContext context ABSL_GUARDED_BY(mutex);
  std::string run_id ABSL_GUARDED_BY(mutex);
  std::string host ABSL_GUARDED_BY(mutex);
};

// Never freed: other threads may log until the process ends.
GuardedContext& Context() {
  static auto* const context = new GuardedContext();
  return *context;
}

// The names that the log agents of clouds understand.
const char* SeverityName(Severity severity) {
  switch (severity) {
    case Severity::kDebug:
      return "DEBUG";
    case Severity::kInfo:
      return "INFO";
    case Severity::kWarning:
      return "WARNING";
    case Severity::kError:
      return "ERROR";
  }
  return "ERROR";
}

std::string JsonNow(Severity severity, std::string_view part, std::string_view text, const NoteSubject& subject) {
  GuardedContext& guarded = Context();
  const MutexLock lock(guarded.mutex);
  return FormatJson({.severity = severity,
                     .time = absl::Now(),
                     .part = part,
                     .text = text,
                     .subject = subject,
                     .run_id = guarded.run_id,
                     .host = guarded.host,
                     .context = guarded.context});
}

}  // namespace

bool ParseSeverity(std::string_view text, Severity* severity) {
  const std::pair<std::string_view, Severity> names[] = {{"debug", Severity::kDebug},
                                                         {"info", Severity::kInfo},
                                                         {"warning", Severity::kWarning},
                                                         {"warn", Severity::kWarning},
                                                         {"error", Severity::kError}};
  for (const auto& [name, value] : names) {
    if (text != name) continue;
    *severity = value;
    return true;
  }
  return false;
}

void InitLog(const LogOptions& options) {
  Json() = options.json;
  {
    GuardedContext& guarded = Context();
    const MutexLock lock(guarded.mutex);
    guarded.run_id = options.run_id;
    guarded.host = options.host;
  }
  const std::unique_ptr<spdlog::logger> old(std::exchange(Current(), MakeLogger(options).release()));
}

void SetLogContext(const LogContext& context) {
  GuardedContext& guarded = Context();
  const MutexLock lock(guarded.mutex);
  guarded.context = context;
}

bool LogsJson() { return Json(); }

std::string FormatJson(const JsonLine& line) {
  nlohmann::ordered_json json;
  json["severity"] = SeverityName(line.severity);
  json["time"] = absl::FormatTime("%Y-%m-%dT%H:%M:%E3SZ", line.time, absl::UTCTimeZone());
  json["message"] = line.text;
  if (*line.subject.event != '\0') json["event"] = line.subject.event;
  json["part"] = line.part;
  if (!line.run_id.empty()) json["run_id"] = line.run_id;
  if (!line.host.empty()) json["host"] = line.host;
  if (line.context.node >= 0) json["node"] = line.context.node;
  const int64_t round = line.subject.round >= 0 ? line.subject.round : line.context.round;
  if (round >= 0) json["round"] = round;
  if (line.subject.node_rank >= 0) json["node_rank"] = line.subject.node_rank;
  if (line.subject.rank >= 0) json["rank"] = line.subject.rank;
  // Replaces invalid UTF-8 instead of throwing.
  return json.dump(-1, ' ', /*ensure_ascii=*/false, nlohmann::json::error_handler_t::replace);
}

void Log(Severity severity, std::string_view part, std::string_view text, const NoteSubject& subject) {
  if (LogsJson()) {
    const std::string json = JsonNow(severity, part, text, subject);
    Current()->log(ToLevel(severity), spdlog::string_view_t(json.data(), json.size()));
    return;
  }
  std::string line = "[";
  line.append(part).append("] ");
  if (severity == Severity::kWarning) line += "warning: ";
  if (severity == Severity::kError) line += "error: ";
  line += OneLine(std::string(text));  // it may contain text from another machine
  Current()->log(ToLevel(severity), spdlog::string_view_t(line.data(), line.size()));
}

}  // namespace muster
