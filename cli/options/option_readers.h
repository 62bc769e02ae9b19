// How the rows of the option table read a value: a parser, and the place of the value in the settings. Pure.
// Parsers return errors with only the reason (values.h).
#pragma once

#include <string>
#include <string_view>
#include <tuple>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cli/options/option_spec.h"
#include "cli/options/settings.h"
#include "cli/options/values.h"

namespace muster::cli {

// The settings' record of this type, so that a row of the table names a field only.
template <typename Record>
Record& RecordOf(Settings* settings) {
  return std::get<Record&>(std::tie(settings->membership, settings->workers, settings->restarts, settings->times,
                                    settings->leaving, settings->program, settings->hooks, settings->output,
                                    settings->torchrun));
}

// A parser, and what it accepts, as a sentence for the help text.
template <typename Parse>
struct LimitedParser {
  Parse parse;
  std::string limits;

  auto operator()(const std::string& text) const { return parse(text); }
};
template <typename Parse>
LimitedParser<Parse> Limited(Parse parse, std::string limits) {
  return {std::move(parse), std::move(limits)};
}
template <typename Parse>
std::string LimitsOf(const Parse& parse) {
  if constexpr (requires { parse.limits; }) {
    return parse.limits;
  } else {
    return "";
  }
}

// "From 1 to 65535."
std::string FromTo(Bounds<int> bounds);
// "From 1s to 24h.", "At least 1s."; empty: as for every time, which the help text says once (TimeSyntax in
// help.h).
std::string FromTo(Bounds<absl::Duration> bounds);

// Stores the value in a field of the settings; the plan decides what follows from it.
template <typename T, typename Record, typename Parse>
ValueReader Into(Given<T> Record::*field, Parse parse, std::string_view fallback = {}) {
  const auto read = [field, parse](std::string_view, const Setting<std::string>& given, Settings* settings) {
    absl::StatusOr<T> value = parse(given.text);
    if (!value.ok()) return value.status();
    RecordOf<Record>(settings).*field = Setting<T>{*std::move(value), given.origin, given.source, given.text};
    return absl::OkStatus();
  };
  return {read, fallback, LimitsOf(parse)};
}

// Stores the value where the agent and the coordinator read it, and its line for `muster env`. `set` takes the
// value and the message. Nothing else is needed for an option that the plan does not depend on.
template <typename Set, typename Parse>
ValueReader IntoConfig(Set set, Parse parse, std::string_view fallback) {
  const auto read = [set, parse](std::string_view name, const Setting<std::string>& given, Settings* settings) {
    const auto value = parse(given.text);
    if (!value.ok()) return value.status();
    set(*value, &settings->config);
    settings->config_lines.push_back({std::string(name), ShowValue(*value), given.source});
    return absl::OkStatus();
  };
  return {read, fallback, LimitsOf(parse)};
}

template <typename T>
T ToField(T value) {
  return value;
}
inline int64_t ToField(absl::Duration value) { return absl::ToInt64Milliseconds(value); }

// The same for a setter of the message; durations are milliseconds there.
template <typename Field, typename Parse>
ValueReader IntoConfig(void (v1::NodeConfig::*set)(Field), Parse parse, std::string_view fallback) {
  const auto store = [set](const auto& value, v1::NodeConfig* config) { (config->*set)(ToField(value)); };
  return IntoConfig(store, parse, fallback);
}

// Only checks the value.
template <typename Parse>
ValueReader Checked(Parse parse) {
  const auto read = [parse](std::string_view, const Setting<std::string>& given, Settings*) {
    return absl::Status(parse(given.text).status());
  };
  return {read, {}, LimitsOf(parse)};
}

// Like `boolean`, but torchrun's variable must be a number: torchrun fails on any other word.
ValueReader LikeTorchrun(const ValueReader& boolean);
template <typename Record>
ValueReader Switch(Given<bool> Record::*field) {
  return LikeTorchrun(Into(field, ParseBoolean));
}

absl::StatusOr<bool> ParseEither(const std::string& text, const char* yes, const char* no);

// Parsers with bounds or words.
inline auto Integer(Bounds<int> bounds) {
  return Limited([bounds](const std::string& text) { return ParseInteger(text, bounds); }, FromTo(bounds));
}
inline auto Time(Bounds<absl::Duration> bounds = kTimes) {
  return Limited([bounds](const std::string& text) { return ParseTime(text, bounds); }, FromTo(bounds));
}
inline auto OneOf(const char* yes, const char* no) {
  return [yes, no](const std::string& text) { return ParseEither(text, yes, no); };
}

absl::StatusOr<std::string> Text(const std::string& text);       // any, but not empty
absl::StatusOr<std::string> ParseRole(const std::string& text);  // coordinators refuse a longer one
absl::StatusOr<std::string> ParseSocketPath(const std::string& text);
absl::StatusOr<std::string> ParseSource(const std::string& text);

// For torchrun's options that have no effect.
absl::StatusOr<double> ParseSeconds(const std::string& text);
absl::StatusOr<std::string> ParseBackend(const std::string& text);
absl::StatusOr<std::string> ParseStartMethod(const std::string& text);
absl::StatusOr<std::string> ParseEventLogHandler(const std::string& text);
absl::StatusOr<std::string> RefuseLogsSpecs(const std::string& text);

}  // namespace muster::cli
