#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "agent/platform/discovery/sources.h"
#include "base/core/status_macros.h"
#include "base/text/mask_secrets.h"
#include "base/wire/ids.h"
#include "cli/plan/parts.h"

namespace muster::cli {
namespace {

// Documented address of the metadata server of both clouds. An address, unlike Google's name
// metadata.google.internal, needs no lookup.
constexpr char kMetadataAddress[] = "169.254.169.254";
constexpr uint16_t kHttpPort = 80;
constexpr char kLeaveSignals[] = "SIGTERM,SIGINT,SIGHUP,SIGQUIT";     // torchrun's default
constexpr char kGceVariable[] = "GCE_METADATA_HOST";                  // read by Google's own libraries
constexpr char kAwsVariable[] = "AWS_EC2_METADATA_SERVICE_ENDPOINT";  // read by the AWS SDKs
constexpr char kProductName[] = "/sys/class/dmi/id/product_name";
constexpr char kVendor[] = "/sys/class/dmi/id/sys_vendor";
constexpr char kBiosVersion[] = "/sys/class/dmi/id/bios_version";
// Both hold the UUID of the instance; only root can read the first, the second exists only under Xen.
constexpr const char* kUuids[] = {"/sys/class/dmi/id/product_uuid", "/sys/hypervisor/uuid"};

absl::StatusOr<v1::Endpoint> ServerAt(const std::string& variable, const std::string& text) {
  v1::Endpoint server;
  server.set_host(kMetadataAddress);
  server.set_port(kHttpPort);
  if (text.empty()) return server;
  const absl::StatusOr<HostPort> address = ParseHostPort(text);
  if (!address.ok() || address->port == uint16_t{0}) {
    return Fault(Origin::kMusterVariable, variable, MaskText(text),
                 "expected HOST or HOST:PORT of a metadata server; correct it, or unset it");
  }
  server.set_host(address->host);
  server.set_port(address->port.value_or(kHttpPort));
  return server;
}

absl::StatusOr<v1::Endpoint> GceServer(const Environment& environment) {
  return ServerAt(kGceVariable, ValueOf(environment, kGceVariable));
}

// The variable is a URL as for the SDKs: "http://169.254.169.254/".
absl::StatusOr<v1::Endpoint> AwsServer(const Environment& environment) {
  const std::string text = ValueOf(environment, kAwsVariable);
  absl::string_view rest = text;
  if (!text.empty() && !absl::ConsumePrefix(&rest, "http://")) {
    return Fault(Origin::kMusterVariable, kAwsVariable, MaskText(text),
                 "expected http://HOST or http://HOST:PORT; correct it, or unset it");
  }
  absl::ConsumeSuffix(&rest, "/");
  if (!text.empty() && rest.empty()) {
    return Fault(Origin::kMusterVariable, kAwsVariable, MaskText(text),
                 "expected http://HOST or http://HOST:PORT; correct it, or unset it");
  }
  return ServerAt(kAwsVariable, std::string(AsStd(rest)));
}

// Identifies the cloud by the machine's firmware alone, without network requests. *why: the evidence.
v1::NoticeSource::Kind KindByFirmware(
    const std::function<std::optional<std::string>(const std::string&)>& read_file, std::string* why) {
  const auto line = [&](const char* path) {
    const std::string text = read_file(path).value_or("");
    return std::string(absl::StripAsciiWhitespace(text));
  };
  if (const std::string product = line(kProductName); product == "Google Compute Engine" || product == "Google") {
    *why = absl::StrCat(kProductName, " says ", product);
    return v1::NoticeSource::GCE;
  }
  if (line(kVendor) == "Amazon EC2") {
    *why = absl::StrCat(kVendor, " says Amazon EC2");
    return v1::NoticeSource::AWS;
  }
  // Older instance types run under Xen ("4.11.amazon"); the UUID of every EC2 instance begins with ec2.
  const std::string vendor = line(kVendor), bios = line(kBiosVersion);
  if (vendor == "Xen" && absl::StrContains(bios, "amazon")) {
    *why = absl::StrCat(kBiosVersion, " says ", bios);
    return v1::NoticeSource::AWS;
  }
  for (const char* const path : kUuids) {
    if ((vendor == "Xen" || vendor.empty()) && absl::StartsWithIgnoreCase(line(path), "ec2")) {
      *why = absl::StrCat(path, " begins with ec2");
      return v1::NoticeSource::AWS;
    }
  }
  *why = "the firmware (DMI) is not that of GCE or EC2";
  return v1::NoticeSource::OFF;
}

// The end of the job that the platform has set in a variable. *variable: its name.
absl::StatusOr<std::optional<absl::Time>> PlatformDeadline(const Environment& environment, std::string* variable) {
  for (const discovery::Source& source : discovery::Sources()) {
    const char* const name = source.traits.deadline.variable;
    if (name == nullptr) continue;
    const std::string text = ValueOf(environment, name);
    if (text.empty()) continue;
    const absl::StatusOr<absl::Time> end = ParseDeadline(text);
    if (!end.ok()) {
      return Fault(Origin::kMusterVariable, name, text, std::string(AsStd(end.status().message())));
    }
    *variable = name;
    return std::optional<absl::Time>(*end);
  }
  return std::optional<absl::Time>();
}

// The error for --stop-before without a deadline.
absl::Status LacksDeadline(const Setting<absl::Duration>& stop_before, const Environment& environment) {
  std::vector<std::string> remedies;
  for (const discovery::Source& source : discovery::Sources()) {
    const discovery::DeadlineSource& deadline = source.traits.deadline;
    const char* const label = source.traits.label;
    if (deadline.variable == nullptr) continue;
    if (!ValueOf(environment, deadline.job_variable).empty()) {
      return Fault(stop_before, absl::StrCat("needs a deadline, and this ", label, " does not set ",
                                             deadline.variable, ": give --deadline \"", deadline.command, "\""));
    }
    remedies.push_back(absl::StrCat("run under ", label, ", which sets ", deadline.variable));
  }
  return Fault(stop_before,
               absl::StrCat("needs a deadline: give --deadline, or ", absl::StrJoin(remedies, ", or ")));
}

// The platform's time between SIGTERM and SIGKILL, less a reserve, and its origin.
std::pair<absl::Duration, std::string> DefaultTerminationGrace(const PlanInput& in,
                                                               v1::NoticeSource::Kind notice) {
  const discovery::Traits& platform = in.platform();
  if (platform.termination_grace > absl::ZeroDuration()) return {platform.termination_grace, platform.label};
  // A node that watches for preemption runs on a spot machine, where ordinary pods have 15 s.
  if (notice == v1::NoticeSource::GCE || notice == v1::NoticeSource::AWS) return {kSpotGrace, "spot machine"};
  if (discovery::InPod(in.membership.platform, in.environment)) return {kKubernetesGrace, "Kubernetes"};
  if (in.machine.first_process) return {kContainerGrace, "first process of a container"};
  return {kPlainGrace, kDefault};
}

}  // namespace

absl::StatusOr<NoticePlan> PlanNotice(
    const LeavingSettings& settings, const Environment& environment,
    const std::function<std::optional<std::string>(const std::string&)>& read_file) {
  NoticePlan plan;
  plan.why = "default";
  if (!settings.preemption_notice) return plan;
  const NoticeChoice& choice = settings.preemption_notice->value;
  plan.why = settings.preemption_notice->source;
  v1::NoticeSource::Kind kind = choice.kind;
  if (choice.by_firmware) {
    std::string why;
    kind = KindByFirmware(read_file, &why);
    plan.why = absl::StrCat(plan.why, " auto: ", why);
  }
  plan.source.set_kind(kind);
  if (kind == v1::NoticeSource::FILE) {
    plan.source.set_file(choice.file);
    plan.shown = absl::StrCat("file:", choice.file);
  } else if (kind == v1::NoticeSource::GCE) {
    ASSIGN_OR_RETURN(*plan.source.mutable_server(), GceServer(environment));
    plan.shown = absl::StrCat("gce, at ", ToString(plan.source.server()));
  } else if (kind == v1::NoticeSource::AWS) {
    ASSIGN_OR_RETURN(*plan.source.mutable_server(), AwsServer(environment));
    plan.shown = absl::StrCat("aws, at ", ToString(plan.source.server()));
  }
  return plan;
}

absl::StatusOr<DeadlinePlan> PlanDeadline(const LeavingSettings& settings, const Environment& environment) {
  DeadlinePlan plan;
  std::optional<absl::Time> deadline;
  if (settings.deadline) {
    deadline = settings.deadline->value;
    plan.origin = settings.deadline->source;
  }
  if (!deadline && settings.stop_before) {
    ASSIGN_OR_RETURN(deadline, PlatformDeadline(environment, &plan.origin));
  }
  if (!deadline) {
    const bool wanted = settings.stop_before && settings.stop_before->value > absl::ZeroDuration();
    if (wanted) return LacksDeadline(*settings.stop_before, environment);
    return plan;
  }
  plan.deadline = absl::FormatTime("%Y-%m-%dT%H:%M:%SZ", *deadline, absl::UTCTimeZone());
  const absl::Duration before = settings.stop_before ? settings.stop_before->value : kStopBefore;
  if (before == absl::ZeroDuration()) return plan;
  plan.stop = host::StopBefore{*deadline, before,
                               absl::StrCat("--stop-before ", muster::FormatDuration(before), ", deadline ",
                                            plan.deadline, " (", plan.origin, ")")};
  return plan;
}

absl::StatusOr<PlanLines> PlanNotices(const PlanInput& in, host::HostOptions* host) {
  const LeavingSettings& s = in.settings.leaving;
  PlanLines plan;
  ASSIGN_OR_RETURN(const NoticePlan notice, PlanNotice(s, in.environment, in.machine.read_file));
  *host->config.mutable_notice() = notice.source;
  plan.Add("preemption-notice", notice.shown, notice.why);
  ASSIGN_OR_RETURN(const DeadlinePlan deadline, PlanDeadline(s, in.environment));
  host->stop_before = deadline.stop;
  plan.Add("deadline", deadline.deadline, deadline.origin);
  plan.Add("stop-before", deadline.stop ? ShowValue(deadline.stop->before) : "never",
           s.stop_before ? s.stop_before->source : kDefault);
  return plan;
}

std::pair<int, std::string> DefaultRetryCode(const PlanInput& in) {
  const discovery::RetryCode& retry = in.platform().retry;
  if (retry.code == 0 || (retry.only_in_pod && !discovery::InPod(in.membership.platform, in.environment)))
    return {0, kDefault};
  return {retry.code, in.platform().label};
}

PlanLines PlanLeaving(const PlanInput& in, host::HostOptions* host, host::LaunchPlan* launch) {
  const LeavingSettings& s = in.settings.leaving;
  PlanLines plan;
  const auto [grace, why_grace] = DefaultTerminationGrace(in, host->config.notice().kind());
  host->termination_grace = plan.Pick("termination-grace", s.termination_grace, grace, {why_grace});
  launch->last_command_limits.grace = host->termination_grace;
  const auto [code, why_code] = DefaultRetryCode(in);
  host->retryable_exit_code = plan.Pick("retryable-exit-code", s.retryable_exit_code, code, {why_code});
  const Given<SignalChoice>& signals = s.signals_to_handle;
  launch->environment.signals_to_handle = signals ? signals->text : kLeaveSignals;
  if (!signals) return plan;
  host->leave_signals = {signals->value.numbers.begin(), signals->value.numbers.end()};
  for (const std::string& name : signals->value.unknown) {
    plan.warnings.push_back(absl::StrCat(signals->source, ": unknown signal ", name, " is ignored"));
  }
  return plan;
}

}  // namespace muster::cli
