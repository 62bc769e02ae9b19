// The output of the workers and of muster itself.
#include <algorithm>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "agent/platform/discovery/sources.h"
#include "cli/plan/line_prefix.h"
#include "cli/plan/parts.h"

namespace muster::cli {
namespace {

constexpr char kErrorFileVariable[] = "TORCHELASTIC_ERROR_FILE";
constexpr int kOut = 1, kErr = 2;  // descriptors

// The streams of `muster local` that are terminals, from its variable.
host::Streams RedrawsPass(const Environment& environment) {
  unsigned streams = 0;
  if (!absl::SimpleAtoi(ValueOf(environment, kRedrawsVariable), &streams)) return host::Streams::kNone;
  return static_cast<host::Streams>(streams & static_cast<unsigned>(host::Streams::kBoth));
}

// The files behind the streams of `muster local`, from its variable; malformed entries are skipped.
std::vector<host::StreamFile> OuterStreams(const Environment& environment) {
  std::vector<host::StreamFile> streams;
  const std::string text = ValueOf(environment, kStreamsVariable);
  for (const absl::string_view each : absl::StrSplit(text, ',')) {
    const std::vector<absl::string_view> fields = absl::StrSplit(each, ':');
    host::StreamFile stream;
    const bool good = fields.size() == 3 && absl::SimpleAtoi(fields[0], &stream.fd) &&
                      absl::SimpleAtoi(fields[1], &stream.device) && absl::SimpleAtoi(fields[2], &stream.inode) &&
                      (stream.fd == kOut || stream.fd == kErr);
    if (good) streams.push_back(stream);
  }
  return streams;
}

// A node of `muster local` marks its lines for it. All its nodes share one output, and one of them reports.
void TakeLocal(const PlanInput& in, const v1::NodeConfig& config, host::LaunchPlan* launch) {
  launch->report.outer_streams = OuterStreams(in.environment);
  if (in.environment.contains(kStreamsVariable)) launch->report.stream_mark = std::string(1, kBareLine);
  const auto prefix = in.environment.find(kPrefixVariable);
  if (prefix == in.environment.end()) return;
  launch->output.prefix_template = prefix->second;
  launch->output.prefix_all = true;
  launch->output.redraws_pass = RedrawsPass(in.environment);
  if (!in.is_of_local()) return;
  launch->report.told_elsewhere = config.place() != 0;
  launch->report.report_on = host::ReportOn::kAll;
}

// What muster sees of the workers' output even where it changes nothing. A terminal stays the workers' own. The
// end of standard error is kept, for the report of a failure, and standard output where its lines stand among
// those; signs of life show in both.
void ChoosePipes(const Machine& machine, bool watches_activity, host::OutputPlan* output) {
  const bool out = !machine.out_is_terminal, err = !machine.err_is_terminal;
  output->merged = err && machine.streams_are_one;
  const bool takes_out = out && (watches_activity || output->merged);
  output->piped = host::StreamsOf(takes_out, err);
}

void ChooseStreams(const OutputSettings& s, int slots, host::OutputPlan* output) {
  if (s.redirects && !s.redirects->value.IsNothing()) {
    for (int i = 0; i < slots; ++i) output->redirects.push_back(s.redirects->value.Of(i));
  }
  if (s.tee && !s.tee->value.IsNothing()) {
    for (int i = 0; i < slots; ++i) output->tees.push_back(s.tee->value.Of(i));
  }
  if (!s.local_ranks_filter) return;
  const std::vector<int>& wanted = s.local_ranks_filter->value;
  for (int i = 0; i < slots; ++i) {
    output->shown.push_back(std::find(wanted.begin(), wanted.end(), i) != wanted.end());
  }
}

// Lines can be grouped where muster shows them behind prefixes. A node of `muster local` leaves it to that.
void ChooseGroups(const PlanInput& in, int slots, host::OutputPlan* output) {
  const GroupLines choice = ValueOr(in.settings.output.group_lines, GroupLines::kAuto);
  if (choice == GroupLines::kOff || slots < 2 || in.is_of_local()) return;
  if (choice == GroupLines::kOn) {
    output->grouped = host::Streams::kBoth;
    const Given<DebugChoice>& debug = in.settings.workers.debug;
    output->prefix_all = !debug || debug->value.port;  // pdb needs the terminal
    return;
  }
  if (in.settings.membership.as_torchrun) return;
  output->grouped = host::StreamsOf(in.machine.out_is_terminal, in.machine.err_is_terminal);
}

// Begins with the run's name, as in torchrun. Nodes may share --log-dir, so that of one of several ends with a
// name of the node.
std::string FolderName(const PlanInput& in, const v1::NodeConfig& config) {
  if (in.membership.single_node || !in.settings.output.log_dir) return config.run_id();
  return absl::StrCat(config.run_id(), "_",
                      in.is_of_local() ? absl::StrCat("node", config.place()) : config.hostname());
}

}  // namespace

PlanLines PlanOutput(const PlanInput& in, v1::NodeConfig* config, host::LaunchPlan* launch) {
  const OutputSettings& s = in.settings.output;
  PlanLines plan;
  host::OutputPlan& output = launch->output;
  output.folder_name = FolderName(in, *config);
  output.log_dir = ValueOr(s.log_dir, output.log_dir);
  output.prefix_template = ValueOr(s.line_prefix, output.prefix_template);
  output.max_file_bytes = ValueOr(s.log_max_size, output.max_file_bytes);
  output.stdout_filters = ValueOr(s.stdout_filters, output.stdout_filters);
  output.stderr_filters = ValueOr(s.stderr_filters, output.stderr_filters);
  ChooseStreams(s, config->slots(), &output);
  launch->watches_activity = config->hang_timeout_ms() != 0 && !in.settings.workers.debug;
  launch->environment.unbuffered = launch->watches_activity;
  ChoosePipes(in.machine, launch->watches_activity, &output);
  ChooseGroups(in, config->slots(), &output);
  config->set_log_json(IsOn(s.log_json));
  const discovery::Traits& platform = in.platform();
  config->set_log_split(ValueOr(s.log_split, platform.stderr_means_error));
  plan.AddGiven("log-format", s.log_json);
  plan.Add("log-streams", config->log_split() ? "split" : "stderr",
           s.log_split                   ? s.log_split->source
           : platform.stderr_means_error ? platform.label
                                         : kDefault);
  plan.AddGiven("log-dir", s.log_dir);
  if (s.log_dir && !s.redirects && !s.tee && output.log_dir != host::kNoFiles)
    plan.notes.emplace_back(
        "--log-dir without -r or -t writes no output to files; for stdout and stderr add -t 3");
  plan.AddGiven("redirects", s.redirects);
  plan.AddGiven("tee", s.tee);
  plan.AddGiven("group-lines", s.group_lines);
  plan.AddGiven("report", s.report);
  plan.AddGiven("report-on", s.report_on_all);
  launch->report.report_file = ValueOr<std::string>(s.report, "");
  if (IsOn(s.report_on_all)) launch->report.report_on = host::ReportOn::kAll;
  launch->report.error_file = ValueOf(in.environment, kErrorFileVariable);
  TakeLocal(in, *config, launch);
  return plan;
}

}  // namespace muster::cli
