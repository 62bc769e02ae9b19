// What the coordinator shows of the job: the file and the command of its events, its web server.
#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/core/status_macros.h"
#include "base/text/tokens.h"
#include "base/wire/ids.h"
#include "base/wire/loopback.h"
#include "cli/plan/parts.h"
#include "cli/plan/token.h"

namespace muster::cli {
namespace {

absl::StatusOr<std::string> TokenIn(const PlanInput& in, const Setting<std::string>& file, PlanLines* plan) {
  ASSIGN_OR_RETURN(const SecretFile content,
                   ReadNamedFile(file, FileKind::kSecret, kMaxTokenFileBytes, in.machine.read_secret));
  if (!content.warning.empty()) plan->warnings.push_back(content.warning);
  const std::string token(absl::StripAsciiWhitespace(content.text));
  if (const absl::Status usable = CheckToken(token); !usable.ok())
    return absl::FailedPreconditionError(
        absl::StrCat(ShownWithValue(file.source, file.text), ": ", usable.message()));
  return token;
}

// The job needs its own ports, and would lose them to the web server or the other way round.
absl::Status CheckPort(const PlanInput& in, const Setting<HostPort>& http, const v1::NodeConfig& config) {
  const uint16_t port = *http.value.port;
  if (port != 0 && !config.single_node() && port == config.primary().port())
    return Fault(http, "is the port on which the primary listens: choose another one");
  const Given<PortRange>& workers = in.settings.workers.worker_port;
  if (port != 0 && workers && workers->value.low <= port && port <= workers->value.high)
    return Fault(http, absl::StrCat("is a port of ", ShownWithValue(workers->source, workers->text),
                                    ": choose another one"));
  return absl::OkStatus();
}

absl::Status PlanEvents(const OutputSettings& s, v1::NodeConfig* config, PlanLines* plan) {
  config->set_events_file(ValueOr<std::string>(s.events, ""));
  plan->AddGiven("events", s.events);
  if (s.on_event_filter && !s.on_event) return Fault(*s.on_event_filter, "has no effect without --on-event");
  config->set_on_event(ValueOr<std::string>(s.on_event, ""));
  if (s.on_event_filter)
    config->mutable_on_event_filter()->Assign(s.on_event_filter->value.begin(), s.on_event_filter->value.end());
  plan->AddGiven("on-event", s.on_event);
  plan->AddGiven("on-event-filter", s.on_event_filter);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<PlanLines> PlanWeb(const PlanInput& in, v1::NodeConfig* config) {
  const OutputSettings& s = in.settings.output;
  PlanLines plan;
  RETURN_IF_ERROR(PlanEvents(s, config, &plan));
  if (config->coordinator_alone() && (s.events || s.on_event || s.http))
    plan.notes.emplace_back(
        "--events, --on-event and --http have no effect on a node of a job with --coordinator: give them to "
        "muster coordinator");
  if (!s.http) {
    if (s.http_token_file) return Fault(*s.http_token_file, "has no effect without --http");
    return plan;
  }
  if (!s.http_token_file && !IsLoopback(s.http->value.host)) {
    return Fault(*s.http,
                 "other machines reach this address, so it needs --http-token-file FILE: muster token prints "
                 "a good token");
  }
  RETURN_IF_ERROR(CheckPort(in, *s.http, *config));
  if (s.http_token_file) {
    ASSIGN_OR_RETURN(*config->mutable_http_token(), TokenIn(in, *s.http_token_file, &plan));
    const auto& keys = config->tokens();
    if (std::find(keys.begin(), keys.end(), config->http_token()) != keys.end())
      return Fault(*s.http_token_file,
                   "it holds the job's own token, which is a key to the job and must not cross HTTP");
  }
  v1::Endpoint address;
  address.set_host(s.http->value.host);
  address.set_port(*s.http->value.port);
  config->set_http(ToString(address));
  plan.AddGiven("http", s.http);
  plan.AddGiven("http-token-file", s.http_token_file);
  return plan;
}

}  // namespace muster::cli
