#include "cli/plan/run_plan.h"

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "agent/platform/discovery/sources.h"
#include "base/core/status_macros.h"
#include "base/text/duration.h"
#include "base/text/utf8.h"
#include "base/wire/ids.h"
#include "base/wire/takeover.h"
#include "cli/options/read_settings.h"
#include "cli/plan/container.h"
#include "cli/plan/debugger.h"
#include "cli/plan/leaving.h"
#include "cli/plan/line_prefix.h"
#include "cli/plan/membership.h"
#include "cli/plan/named_ranks.h"
#include "cli/plan/preloading.h"
#include "cli/plan/token.h"
#include "rendezvous/transport/credential_files.h"

namespace muster::cli {
namespace {

constexpr char kDefault[] = "default";
constexpr char kErrorFileVariable[] = "TORCHELASTIC_ERROR_FILE";
constexpr char kLeaveSignals[] = "SIGTERM,SIGINT,SIGHUP,SIGQUIT";  // torchrun's default
constexpr char kVisibleDevices[] = "CUDA_VISIBLE_DEVICES";
constexpr char kOmpThreads[] = "OMP_NUM_THREADS";
constexpr int kMaxWorkers = INT32_MAX;  // global ranks are 32 bits

// Fills a plan from settings and records the origin of each value.
class Planner {
 public:
  Planner(const Settings& settings, const Environment& environment, const Machine& machine, RunPlan* plan)
      : settings_(settings), environment_(environment), machine_(machine), plan_(plan), config_(&plan->config) {}

  absl::Status Run() {
    *config_ = settings_.config;
    if (settings_.leaving.retryable_exit_code) ReportRetryCode(settings_.leaving.retryable_exit_code->value);
    ASSIGN_OR_RETURN(membership_, FindMembership(settings_.membership, environment_, machine_));
    plan_->view = membership_.view;
    plan_->on_platform = membership_.on_platform;
    plan_->platform = membership_.platform;
    if (!settings_.leaving.retryable_exit_code) ReportRetryCode(DefaultRetryCode().first);
    const auto take_variables = Platform().take_variables;
    if (take_variables != nullptr && !membership_.on_platform) take_variables(environment_, &plan_->view);
    RETURN_IF_ERROR(TakeIdentity());
    TakeMembership();
    RETURN_IF_ERROR(TakeCertificates());
    RETURN_IF_ERROR(CheckText());
    RETURN_IF_ERROR(TakeSlots());
    TakeBudgets();
    TakeFitness();
    TakeHooks();
    RETURN_IF_ERROR(TakeGrowth());
    RETURN_IF_ERROR(TakeLeaving());
    RETURN_IF_ERROR(TakeTimes());
    RETURN_IF_ERROR(TakeWorkers());
    TakeProgram();
    RETURN_IF_ERROR(TakeOwnDevices());
    RETURN_IF_ERROR(TakeCpus());
    TakeOutput();
    TurnOffTimeouts();
    LinesOf({});
    const bool of_local = environment_.count(kRedrawsVariable) > 0;
    RETURN_IF_ERROR(CheckDebugging(of_local));
    RETURN_IF_ERROR(CheckNamedRanks(settings_, *config_, of_local, &plan_->view.warnings));
    return TakeContainer(settings_, environment_, machine_, plan_);
  }

 private:
  // Returns the given value, or else the fallback, and records it with its origin.
  template <typename T>
  T Pick(const char* name, const Given<T>& given, T fallback, const std::string& fallback_origin = kDefault) {
    T value = given ? given->value : fallback;
    Line(name, ShowValue(value), given ? given->source : fallback_origin);
    return value;
  }

  // The same for a setting that has its default from the option table.
  template <typename T>
  T Pick(const char* name, const Given<T>& setting) {
    Line(name, ShowValue(setting->value), setting->source);
    return setting->value;
  }

  // Adds the lines of options that are in the configuration already; no names: of all that have no line yet.
  void LinesOf(std::initializer_list<std::string_view> names) {
    for (const SettingLine& line : settings_.config_lines) {
      const auto is_it = [&](const SettingLine& other) { return other.name == line.name; };
      const bool named = std::find(names.begin(), names.end(), line.name) != names.end();
      const bool shown = std::any_of(plan_->lines.begin(), plan_->lines.end(), is_it);
      if (!shown && (named || names.size() == 0)) plan_->lines.push_back(line);
    }
  }

  // Records the value only if it was given.
  template <typename T>
  void LineOf(const char* name, const Given<T>& given) {
    if (given) Line(name, given->text, given->source);
  }

  void Line(const char* name, std::string value, std::string origin) {
    plan_->lines.push_back({name, std::move(value), std::move(origin)});
  }

  std::string PlatformOr(const std::string& otherwise) const {
    return membership_.on_platform ? membership_.view.source : otherwise;
  }

  absl::Status TakeIdentity() {
    config_->set_hostname(ToUtf8(machine_.hostname, machine_.hostname.size()));
    config_->set_version(machine_.version);
    config_->set_host_key(machine_.host_key);
    config_->set_boot_id(machine_.boot_id);
    config_->set_pid_namespace(machine_.pid_namespace);
    ASSIGN_OR_RETURN(const OwnTokens own,
                     TokensOf(settings_.membership.token_file, environment_, machine_.read_secret));
    config_->mutable_tokens()->Assign(own.tokens.begin(), own.tokens.end());
    config_->set_token_file(own.file);
    for (const std::string& warning : own.warnings) WarnOf(warning);
    return absl::OkStatus();
  }

  void WarnOf(const std::string& warning) {
    if (warning.empty()) return;
    plan_->view.warnings.push_back(warning);
    plan_->credential_warnings.push_back(warning);
  }

  absl::Status TakeCertificates() {
    const MembershipSettings& s = settings_.membership;
    if (!s.tls_cert) return absl::OkStatus();
    if (!config_->tokens().empty()) {
      return Fault(*s.tls_cert, absl::StrCat("a token is set, too (", kTokenVariable,
                                             "): choose tokens or certificates, the same on all nodes"));
    }
    v1::Certificates* const files = config_->mutable_certificates();
    files->set_name(s.tls_name->value);
    const auto take = [this](const Setting<std::string>& file, FileKind kind, std::string* path,
                             std::string* text) -> absl::Status {
      ASSIGN_OR_RETURN(const SecretFile content,
                       ReadNamedFile(file, kind, rendezvous::kMaxCertificateFileBytes, machine_.read_secret));
      *path = content.path;
      *text = content.text;
      WarnOf(content.warning);
      return absl::OkStatus();
    };
    RETURN_IF_ERROR(take(*s.tls_cert, FileKind::kPublic, files->mutable_cert_file(), files->mutable_cert()));
    RETURN_IF_ERROR(take(*s.tls_key, FileKind::kSecret, files->mutable_key_file(), files->mutable_key()));
    RETURN_IF_ERROR(take(*s.tls_ca, FileKind::kPublic, files->mutable_ca_file(), files->mutable_ca()));
    return WithFile(machine_.check_certificates(*config_));
  }

  // The check sees texts alone, and begins its messages with the option. Their reader needs the file, and the
  // variable if that has named it.
  absl::Status WithFile(const absl::Status& wrong) const {
    const MembershipSettings& s = settings_.membership;
    const std::string message(AsStd(wrong.message()));
    const std::pair<std::string, const Given<std::string>*> files[] = {
        {"--tls-cert: ", &s.tls_cert}, {"--tls-key: ", &s.tls_key}, {"--tls-ca: ", &s.tls_ca}};
    for (const auto& [start, file] : files) {
      if (!message.starts_with(start)) continue;
      return {wrong.code(),
              absl::StrCat(ShownWithValue((*file)->source, (*file)->text), ": ", message.substr(start.size()))};
    }
    return wrong;
  }

  // Strings in protobuf messages must be UTF-8. A name that is not is refused: converted, it would be another
  // name. Options are checked when they are read.
  absl::Status CheckText() const {
    for (const std::string* text : {&config_->run_id(), &config_->primary().host()}) {
      const std::string shown = ToUtf8(*text, text->size());
      if (shown != *text) return absl::FailedPreconditionError(absl::StrCat("'", shown, "': expected UTF-8"));
    }
    return absl::OkStatus();
  }

  void TakeMembership() {
    const discovery::ClusterView& view = membership_.view;
    const bool trainer = view.role == discovery::NodeRole::kTrainer;
    plan_->view.run_id = Pick("rdzv-id", settings_.membership.rdzv_id, view.run_id, PlatformOr(kDefault));
    config_->set_run_id(plan_->view.run_id);
    config_->set_run_id_may_repeat(settings_.membership.rdzv_id.has_value() ||
                                   view.run_id == discovery::kNoRunName ||
                                   discovery::TraitsOf(view.source).starts_no_node_again);
    config_->set_role(trainer ? v1::ROLE_TRAINER : v1::ROLE_OBSERVER);
    if (trainer && view.node_rank >= 0) config_->set_place(view.node_rank);
    config_->set_place_is_hint(config_->has_place() && membership_.rank_is_hint);
    for (const std::string& node : view.nodes) config_->add_place_names(node);
    config_->set_min_nodes(membership_.min_nodes);
    config_->set_max_nodes(membership_.max_nodes);
    config_->mutable_primary()->set_host(view.primary_host);
    config_->mutable_primary()->set_port(view.primary_port);
    if (!settings_.membership.coordinator) {
      config_->set_primary_address(view.primary_address);
      config_->set_primary_source(view.primary_evidence);
    }
    config_->set_serves(trainer ? membership_.serves : v1::NodeConfig::SERVES_NO);
    config_->set_single_node(membership_.single_node);
    config_->set_coordinator_alone(settings_.membership.coordinator.has_value());
    config_->set_loopback_only(view.loopback_only);
    const bool range = membership_.min_nodes != membership_.max_nodes;
    Line("nnodes",
         range ? absl::StrCat(membership_.min_nodes, ":", membership_.max_nodes)
               : absl::StrCat(membership_.max_nodes),
         membership_.nodes_source);
    config_->set_local_addr(Pick("local-addr", settings_.membership.local_addr, std::string()));
    config_->set_role_name(Pick("role", settings_.workers.role));
  }

  absl::Status TakeSlots() {
    if (plan_->view.role != discovery::NodeRole::kTrainer) {
      Line("nproc-per-node", "0", PlatformOr(kDefault));
      return absl::OkStatus();
    }
    ASSIGN_OR_RETURN(const Given<SlotCount> given, SlotsGiven());
    ASSIGN_OR_RETURN(const int slots, CountSlots(given));
    Line("nproc-per-node", ShowValue(slots), given ? given->source : PlatformOr(kDefault));
    config_->set_slots(slots);
    if (given && int64_t{slots} * membership_.max_nodes > kMaxWorkers) {
      return Fault(*given, absl::StrCat("with ", membership_.max_nodes, " nodes the job has more than ",
                                        kMaxWorkers, " workers; give fewer"));
    }
    return absl::OkStatus();
  }

  // Under the name torchrun one worker is the default everywhere, unless an own option of muster names the source.
  bool PlatformCountsSlots() const {
    const MembershipSettings& s = settings_.membership;
    return membership_.on_platform && (!s.as_torchrun || s.source);
  }

  // The number of workers that an option gives, or else the platform; nullopt: neither.
  absl::StatusOr<Given<SlotCount>> SlotsGiven() const {
    const discovery::ClusterView& view = membership_.view;
    if (settings_.workers.nproc_per_node || !PlatformCountsSlots() || view.nproc.empty())
      return settings_.workers.nproc_per_node;
    const std::string& origin = view.nproc_source.empty() ? view.source : view.nproc_source;
    Setting<SlotCount> said = {{}, Origin::kPlatform, origin, view.nproc};
    const absl::StatusOr<SlotCount> count = ParseSlotCount(view.nproc);
    if (!count.ok()) {
      return Fault(said, absl::StrCat(std::string(AsStd(count.status().message())),
                                      "; correct it, or give --nproc-per-node"));
    }
    said.value = *count;
    return Given<SlotCount>(said);
  }

  absl::StatusOr<int> CountSlots(const Given<SlotCount>& given) {
    if (given && given->value.kind == SlotCount::kNumber) return given->value.number;
    if (!given && !PlatformCountsSlots()) return 1;
    const absl::StatusOr<machine::WorkerCount> count = machine_.count_workers(given ? given->text : "");
    if (!count.ok()) {
      const std::string reason(AsStd(count.status().message()));
      return given ? Fault(*given, reason) : absl::FailedPreconditionError(reason);
    }
    plan_->slots_reason = count->reason;
    plan_->visible_variable = count->visible_variable;
    plan_->own_devices = count->own_devices;
    nvidia_ = count->nvidia;
    plan_->view.warnings.insert(plan_->view.warnings.end(), count->warnings.begin(), count->warnings.end());
    return count->workers;
  }

  void TakeBudgets() {
    const RestartSettings& s = settings_.restarts;
    const Given<DebugChoice>& debug = settings_.workers.debug;
    const int restarts = membership_.on_platform && !debug ? kPlatformMaxRestarts : 0;
    config_->set_max_restarts(
        Pick("max-restarts", s.max_restarts, restarts, debug ? debug->source : PlatformOr(kDefault)));
    const auto ms = [](absl::Duration d) { return absl::ToInt64Milliseconds(d); };
    config_->set_restart_window_ms(ms(Pick("restart-window", s.restart_window, absl::ZeroDuration())));
    if (!s.restart_window) plan_->lines.back().value = "none";
    LinesOf({"restart-delay", "max-node-losses", "max-membership-changes", "exclude-after", "exclude-for"});
    LineOf("progress-file", s.progress_file);
    config_->set_watches_progress(s.progress_file.has_value());
  }

  // Commands that a node runs beside its workers.
  void TakeHooks() {
    const HookSettings& s = settings_.hooks;
    LineOf("node-setup", s.node_setup);
    LineOf("on-success", s.on_success);
    LineOf("on-failure", s.on_failure);
    if (s.node_setup || s.on_success || s.on_failure) plan_->hook_timeout = Pick("hook-timeout", s.hook_timeout);
  }

  // Checks that a node must pass before it takes part in a round.
  void TakeFitness() {
    const RestartSettings& s = settings_.restarts;
    LineOf("preflight", s.preflight);
    if (s.preflight) plan_->preflight_timeout = Pick("preflight-timeout", s.preflight_timeout);
    const bool nvidia = nvidia_ || machine_.nvidia_driver;
    if (!nvidia && !s.gpu_release_timeout) return;
    const absl::Duration limit = Pick("gpu-release-timeout", s.gpu_release_timeout, kGpuReleaseTimeout);
    if (nvidia) plan_->gpu_release_timeout = limit;
  }

  // With --nnodes MIN:MAX: when the group grows, and by how many nodes.
  absl::Status TakeGrowth() {
    KeepSize();
    LinesOf({"join-settle", "scale-up"});
    const int unit = Pick("node-unit", settings_.restarts.node_unit);
    config_->set_node_unit(unit);
    if (config_->min_nodes() % unit == 0 && config_->max_nodes() % unit == 0) return absl::OkStatus();
    return Fault(*settings_.restarts.node_unit,
                 absl::StrCat("must divide the minimum and the maximum number of nodes, ", config_->min_nodes(),
                              " and ", config_->max_nodes()));
  }

  // A node that arrives restarts no group that is debugged, unless that was asked for.
  void KeepSize() {
    const auto is_default = [](const SettingLine& line) {
      return line.name == "scale-up" && line.origin == kDefault;
    };
    const std::vector<SettingLine>& lines = settings_.config_lines;
    if (!settings_.workers.debug || std::none_of(lines.begin(), lines.end(), is_default)) return;
    config_->set_scale_up(v1::NodeConfig::SCALE_UP_ON_RESTART);
    Line("scale-up", ShowValue(config_->scale_up()), settings_.workers.debug->source);
  }

  // What would end a worker, or the job, while --debug holds a rank.
  void TurnOffTimeouts() {
    const Given<DebugChoice>& debug = settings_.workers.debug;
    if (!debug) return;
    Line("debug", debug->text, debug->source);
    if (config_->hang_timeout_ms() != 0) {
      plan_->notes.push_back(absl::StrCat("--hang-timeout is off, because ", debug->source, " is given"));
    }
    config_->set_hang_timeout_ms(0);
    Line("hang-timeout", "off", debug->source);
    if (!config_->coordinator_alone()) return;
    plan_->view.warnings.push_back(
        absl::StrCat(debug->source, ": a restart would end the debugged worker: give muster coordinator ",
                     "--max-restarts 0 --scale-up on-restart"));
  }

  absl::Status CheckDebugging(bool of_local) const {
    if (config_->slots() == 0) return absl::OkStatus();
    RETURN_IF_ERROR(CheckPreload(settings_, plan_->no_python, plan_->script));
    RETURN_IF_ERROR(CheckDebugOptions(settings_, plan_->no_python, of_local));
    // With several nodes only the one that gets the rank needs the keyboard.
    const bool is_elsewhere = of_local || !config_->single_node();
    return CheckDebugKeyboard(settings_, is_elsewhere || machine_.dialogue);
  }

  absl::Status TakeTimes() {
    const TimeSettings& s = settings_.times;
    const auto ms = [](absl::Duration d) { return absl::ToInt64Milliseconds(d); };
    const auto [join_timeout, why_join] = DefaultJoinTimeout();
    config_->set_join_timeout_ms(ms(Pick("join-timeout", s.join_timeout, join_timeout, why_join)));
    config_->set_last_call_ms(
        ms(Pick("last-call-timeout", s.last_call_timeout, membership_.on_platform ? kPlatformLastCall : kLastCall,
                PlatformOr(kDefault))));
    TakeReturns();
    if (config_->start_timeout_ms() != 0 && config_->hang_timeout_ms() == 0) {
      plan_->notes.push_back("--start-timeout has no effect, because --hang-timeout is off");
    }
    const absl::Duration lease = Pick("lease", s.lease, muster::LeaseForNodes(membership_.max_nodes));
    config_->set_lease_ms(membership_.single_node ? 0 : ms(lease));
    config_->set_beat_ms(ms(Pick("heartbeat-interval", s.heartbeat_interval, absl::ZeroDuration())));
    if (!s.heartbeat_interval)
      plan_->lines.back().value = "depends on the job's size";  // 0: the coordinator chooses
    const absl::Duration grace = Pick("reconnect-grace", s.reconnect_grace, std::min(kReconnectGrace, lease / 2));
    config_->set_reconnect_grace_ms(ms(grace));
    config_->set_shutdown_grace_ms(ms(Pick("shutdown-timeout", s.shutdown_timeout)));
    const auto [default_grace, from] = DefaultTerminationGrace();
    plan_->termination_grace = Pick("termination-grace", settings_.leaving.termination_grace, default_grace, from);
    const auto [retry_code, why] = DefaultRetryCode();
    plan_->retryable_exit_code =
        Pick("retryable-exit-code", settings_.leaving.retryable_exit_code, retry_code, why);
    if (s.heartbeat_interval && s.heartbeat_interval->value * kLeastBeatsPerLease > lease) {
      return Fault(*s.heartbeat_interval,
                   absl::StrCat("must be at most ", muster::FormatDuration(lease / kLeastBeatsPerLease), " (1/",
                                kLeastBeatsPerLease, " of --lease ", muster::FormatDuration(lease), ")"));
    }
    if (s.reconnect_grace && grace >= lease) {
      return Fault(*s.reconnect_grace, "must be less than --lease " + muster::FormatDuration(lease));
    }
    return absl::OkStatus();
  }

  // The nodes of muster local start together, although they look like those of a platform.
  std::pair<absl::Duration, std::string> DefaultJoinTimeout() const {
    const absl::Duration of_platform = Platform().join_timeout;
    if (of_platform == absl::ZeroDuration() || environment_.count(kRedrawsVariable) > 0)
      return {kJoinTimeout, kDefault};
    return {of_platform, Platform().label};
  }

  // How long to wait for lost nodes and a lost primary; shorter where the platform replaces none.
  void TakeReturns() {
    const discovery::Traits& source = discovery::TraitsOf(membership_.view.source);
    const bool shorter = source.replaces_no_node;
    const auto ms = [&](const char* name, const Given<absl::Duration>& given, absl::Duration otherwise) {
      return absl::ToInt64Milliseconds(
          Pick(name, given, shorter ? kNoReplacementWait : otherwise, shorter ? source.label : kDefault));
    };
    config_->set_rejoin_timeout_ms(ms("rejoin-timeout", settings_.times.rejoin_timeout, kRejoinTimeout));
    config_->set_coordinator_timeout_ms(
        ms("coordinator-timeout", settings_.times.coordinator_timeout, kCoordinatorTimeout));
  }

  absl::Status TakeLeaving() {
    ASSIGN_OR_RETURN(const NoticePlan notice, PlanNotice(settings_.leaving, environment_, machine_.read_file));
    *config_->mutable_notice() = notice.source;
    Line("preemption-notice", notice.shown, notice.why);
    ASSIGN_OR_RETURN(const DeadlinePlan deadline, PlanDeadline(settings_.leaving, environment_));
    plan_->stop_before = deadline.stop;
    Line("deadline", deadline.deadline, deadline.origin);
    Line("stop-before", deadline.stop ? ShowValue(deadline.stop->before) : "never",
         settings_.leaving.stop_before ? settings_.leaving.stop_before->source : kDefault);
    return absl::OkStatus();
  }

  // The traits of the platform that the machine belongs to, even if the membership comes from options.
  const discovery::Traits& Platform() const { return discovery::TraitsOf(membership_.platform); }

  std::pair<int, std::string> DefaultRetryCode() const {
    const discovery::RetryCode& retry = Platform().retry;
    if (retry.code == 0 || (retry.only_in_pod && !discovery::InPod(membership_.platform, environment_)))
      return {0, kDefault};
    return {retry.code, Platform().label};
  }

  void ReportRetryCode(int code) const {
    if (machine_.on_retryable_exit_code) machine_.on_retryable_exit_code(code);
  }

  // The platform's time between SIGTERM and SIGKILL, less a reserve, and its origin.
  std::pair<absl::Duration, std::string> DefaultTerminationGrace() const {
    const discovery::Traits& platform = Platform();
    if (platform.termination_grace > absl::ZeroDuration()) return {platform.termination_grace, platform.label};
    // A node that watches for preemption runs on a spot machine, where ordinary pods have 15 s.
    const v1::NoticeSource::Kind notice = config_->notice().kind();
    if (notice == v1::NoticeSource::GCE || notice == v1::NoticeSource::AWS) return {kSpotGrace, "spot machine"};
    if (discovery::InPod(membership_.platform, environment_)) return {kKubernetesGrace, "Kubernetes"};
    if (machine_.first_process) return {kContainerGrace, "first process of a container"};
    return {kPlainGrace, kDefault};
  }

  absl::Status TakeWorkers() {
    const Given<PortRange>& port = settings_.workers.worker_port;
    if (port) {
      plan_->worker_port = port->value;
      const uint16_t primary = plan_->view.primary_port;
      if (!membership_.single_node && plan_->worker_port.low == primary && plan_->worker_port.high == primary) {
        return Fault(*port, "is the port of the primary; choose another, or a range");
      }
    }
    Line("worker-port", port ? port->text : "any", port ? port->source : kDefault);
    const auto& choice = settings_.workers.stdin_choice;
    const Given<DebugChoice>& debug = settings_.workers.debug;
    if (UsesTerminal(debug)) {
      Line("stdin", absl::StrCat(debug->value.rank), debug->source);
    } else {
      Line("stdin", choice ? choice->text : "the only worker, or all on a terminal",
           choice ? choice->source : kDefault);
    }
    return absl::OkStatus();
  }

  void TakeProgram() {
    // As in torchrun, --run-path overrides --no-python.
    plan_->no_python = !IsOn(settings_.program.run_path) && IsOn(settings_.program.no_python);
    const Given<SignalChoice>& signals = settings_.leaving.signals_to_handle;
    plan_->leave_signals_text = signals ? signals->text : kLeaveSignals;
    if (signals) plan_->leave_signals = signals->value;
    for (const std::string& name : plan_->leave_signals.unknown) {
      plan_->view.warnings.push_back(absl::StrCat(signals->source, ": unknown signal ", name, " is ignored"));
    }
    plan_->notes.insert(plan_->notes.begin(), settings_.notes.begin(), settings_.notes.end());
    if (!membership_.ignored_sources.empty()) plan_->notes.push_back(membership_.ignored_sources);
    if (config_->slots() > 1 && environment_.count(kOmpThreads) == 0) {
      plan_->notes.push_back(absl::StrCat(kOmpThreads, " is not set: workers get 1"));
    }
    plan_->view.warnings.insert(plan_->view.warnings.end(), settings_.warnings.begin(), settings_.warnings.end());
  }

  // --virtual-local-rank: each worker sees its own entry of the list, or the device of its number.
  absl::Status TakeOwnDevices() {
    if (!IsOn(settings_.workers.virtual_local_rank) || !plan_->own_devices.empty()) return absl::OkStatus();
    const auto list = environment_.find(kVisibleDevices);
    const bool listed = list != environment_.end() && !list->second.empty();
    std::vector<std::string> entries;
    if (listed) entries = absl::StrSplit(list->second, ',');
    if (listed && static_cast<int>(entries.size()) < config_->slots()) {
      return Fault(
          *settings_.workers.virtual_local_rank,
          absl::StrCat(kVisibleDevices, " has ", entries.size(), " devices for ", config_->slots(), " workers"));
    }
    plan_->visible_variable = kVisibleDevices;
    for (int i = 0; i < config_->slots(); ++i) {
      plan_->own_devices.push_back(
          listed ? std::string(absl::StripAsciiWhitespace(entries[static_cast<size_t>(i)])) : absl::StrCat(i));
    }
    return absl::OkStatus();
  }

  // --numa-binding: each worker runs on the CPUs near the GPU of its local rank.
  absl::Status TakeCpus() {
    const Given<std::string>& given = settings_.workers.numa_binding;
    if (!given || config_->slots() == 0) return absl::OkStatus();
    const machine::Accelerators found = machine_.accelerators();
    std::vector<int> gpus;
    for (const std::string& entry : found.visible) {
      int index = 0;
      if (!absl::SimpleAtoi(entry, &index)) {
        return Fault(*given,
                     absl::StrCat(found.visible_variable, " names ", entry, ": expected indices, not UUIDs"));
      }
      gpus.push_back(index);
    }
    if (static_cast<int>(gpus.size()) < config_->slots()) {
      return Fault(*given, absl::StrCat("there are ", gpus.size(), " GPUs for ", config_->slots(), " workers (",
                                        found.reason, ")"));
    }
    gpus.resize(static_cast<size_t>(config_->slots()));
    const auto cpus = machine_.bind_to_cpus(given->value, gpus);
    if (!cpus.ok()) return Fault(*given, std::string(AsStd(cpus.status().message())));
    plan_->cpus = *cpus;
    return absl::OkStatus();
  }

  void TakeOutput() {
    const OutputSettings& s = settings_.output;
    host::OutputPlan& output = plan_->output;
    output.run_id = config_->run_id();
    if (s.log_dir) output.log_dir = s.log_dir->value;
    if (s.line_prefix) output.prefix_template = s.line_prefix->value;
    if (s.log_max_size) output.max_file_bytes = s.log_max_size->value;
    if (s.stdout_filters) output.stdout_filters = s.stdout_filters->value;
    if (s.stderr_filters) output.stderr_filters = s.stderr_filters->value;
    const int slots = config_->slots();
    if (s.redirects && !s.redirects->value.IsNothing()) {
      for (int i = 0; i < slots; ++i) output.redirects.push_back(s.redirects->value.Of(i));
    }
    if (s.tee && !s.tee->value.IsNothing()) {
      for (int i = 0; i < slots; ++i) output.tees.push_back(s.tee->value.Of(i));
    }
    if (s.local_ranks_filter) {
      const std::vector<int>& wanted = s.local_ranks_filter->value;
      for (int i = 0; i < slots; ++i) {
        output.shown.push_back(std::find(wanted.begin(), wanted.end(), i) != wanted.end());
      }
    }
    config_->set_log_json(s.log_json && s.log_json->value);
    const discovery::Traits& platform = Platform();
    config_->set_log_split(s.log_split ? s.log_split->value : platform.stderr_means_error);
    LineOf("log-format", s.log_json);
    Line("log-streams", config_->log_split() ? "split" : "stderr",
         s.log_split                   ? s.log_split->source
         : platform.stderr_means_error ? platform.label
                                       : kDefault);
    if (s.report) plan_->report.report_file = s.report->value;
    if (s.report_on_all && s.report_on_all->value) plan_->report.report_on = host::ReportOn::kAll;
    LineOf("log-dir", s.log_dir);
    LineOf("redirects", s.redirects);
    LineOf("tee", s.tee);
    LineOf("report", s.report);
    LineOf("report-on", s.report_on_all);
    const auto error_file = environment_.find(kErrorFileVariable);
    if (error_file != environment_.end()) plan_->report.error_file = error_file->second;
  }

  const Settings& settings_;
  const Environment& environment_;
  const Machine& machine_;
  RunPlan* const plan_;
  v1::NodeConfig* const config_;
  Membership membership_;
  bool nvidia_ = false;  // the number of workers is the number of NVIDIA GPUs
};

// Source of the membership for the summary: the platform, "from the command line" or "from MUSTER_NNODES". Empty
// for a single-node job that no platform describes.
std::string SourceShown(const RunPlan& plan) {
  const std::string& source = plan.view.source;
  const bool from_options = source == discovery::kFromOptions;
  if (plan.config.single_node() && (from_options || source == discovery::kSingleNode)) return "";
  if (!from_options) return source;
  for (const SettingLine& line : plan.lines) {
    if (line.name == "nnodes" && !line.origin.starts_with("--")) return "from " + line.origin;
  }
  return "from the command line";
}

}  // namespace

absl::StatusOr<RunPlan> Plan(const CommandLine& command_line, const Environment& environment,
                             const Machine& machine) {
  ASSIGN_OR_RETURN(Settings settings, ReadSettings(command_line, environment));
  RunPlan plan;
  plan.settings = settings;
  plan.script = command_line.script;
  plan.script_arguments = command_line.script_arguments;
  RETURN_IF_ERROR(Planner(settings, environment, machine, &plan).Run());
  return plan;
}

std::string Summary(const RunPlan& plan) {
  const v1::NodeConfig& config = plan.config;
  std::string text;
  if (config.role() == v1::ROLE_OBSERVER) {
    text =
        absl::StrCat(plan.view.self, ", which does not train, in a job of ", plan.view.nnodes, " training nodes");
  } else if (config.single_node()) {
    text = "single-node job";
  } else {
    const bool range = config.min_nodes() != config.max_nodes();
    text = absl::StrCat(config.has_place() ? absl::StrCat("node ", config.place()) : "node with no rank yet",
                        " of ", range ? absl::StrCat(config.min_nodes(), " to ") : "", config.max_nodes());
  }
  const std::string source = SourceShown(plan);
  if (!source.empty()) absl::StrAppend(&text, " (", source, ")");
  if (!config.single_node()) {
    absl::StrAppend(&text, config.coordinator_alone() ? ", coordinator " : ", primary ",
                    ToString(config.primary()));
  }
  if (config.slots() > 0)
    absl::StrAppend(&text, ", ", config.slots(), config.slots() == 1 ? " worker" : " workers");
  return absl::StrCat(text, ", run id: ", config.run_id() == discovery::kNoRunName ? "not set" : config.run_id());
}

}  // namespace muster::cli
