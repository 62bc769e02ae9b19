#include "rendezvous/web/metrics_text.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "rendezvous/web/view_words.h"

namespace muster::rendezvous {
namespace {

using View = v1::JobView;
using Node = v1::NodeView;

std::string Quoted(const std::string& value) {
  return absl::StrCat("\"", absl::StrReplaceAll(value, {{"\\", "\\\\"}, {"\"", "\\\""}, {"\n", "\\n"}}), "\"");
}

// One metric: its description, then a line for each of its series.
class Family {
 public:
  Family(std::string* out, const char* name, const char* type, const char* help) : out_(out), name_(name) {
    absl::StrAppend(out_, "# HELP ", name, " ", help, "\n# TYPE ", name, " ", type, "\n");
  }
  void Add(double value) { AddRow("", {}, value); }
  void Add(const char* label, const std::string& is, double value) { AddRow("", {{label, is}}, value); }
  void AddRow(const char* suffix, const std::vector<std::pair<const char*, std::string>>& labels, double value) {
    std::string shown;
    for (const auto& [label, is] : labels)
      absl::StrAppend(&shown, shown.empty() ? "{" : ",", label, "=", Quoted(is));
    if (!shown.empty()) shown += "}";
    absl::StrAppend(out_, name_, suffix, shown, " ", absl::StrFormat("%.15g", value), "\n");
  }

 private:
  std::string* const out_;
  const char* const name_;
};

// When that was, in seconds since 1970.
double Moment(absl::Time now, int64_t age_ms) {
  return absl::ToDoubleSeconds(now - absl::Milliseconds(age_ms) - absl::UnixEpoch());
}

// Each value of an enum has a series, so that one which is not there is 0 and not absent.
template <typename Enum, typename Name>
void AddEach(Enum last, Name name, const char* prefix, const std::map<int, int64_t>& counts, Family* family) {
  for (int value = 1; value <= last; ++value) {  // 0: not known
    const auto found = counts.find(value);
    family->Add("state", KeyOf(name(static_cast<Enum>(value)), prefix),
                static_cast<double>(found == counts.end() ? 0 : found->second));
  }
}

void AddNodes(const View& view, std::string* out) {
  std::map<int, int64_t> parts;
  int64_t alive = 0, absent = 0;
  for (const Node& node : view.nodes()) {
    ++parts[node.part()];
    alive += node.live_workers();
    if (node.part() == Node::PART_MEMBER) absent += std::max(0, node.workers() - node.live_workers());
  }
  Family nodes(out, "muster_nodes", "gauge", "Nodes that the coordinator knows, by their part in the job.");
  AddEach(
      Node::Part_MAX, [](Node::Part part) { return Node::Part_Name(part); }, "PART_", parts, &nodes);
  Family(out, "muster_nodes_missing", "gauge", "Nodes for which the next round waits (64 at most).")
      .Add(view.missing_size());
  Family workers(out, "muster_workers", "gauge", "Workers that live, and workers of the round that do not.");
  workers.Add("state", "alive", static_cast<double>(alive));
  workers.Add("state", "absent", static_cast<double>(absent));
}

void AddRounds(const View& view, std::string* out) {
  Family(out, "muster_round", "gauge", "Number of the newest round; 0: none has begun.")
      .Add(static_cast<double>(view.round().number()));
  Family(out, "muster_world_size", "gauge", "Workers of the newest round.").Add(view.round().world_size());
  Family(out, "muster_restarts_so_far", "gauge", "Restarts of the job so far, over all coordinators.")
      .Add(view.left().restarts_so_far());
  Family restarts(out, "muster_restarts_total", "counter",
                  "Rounds that followed another one, by what had ended that, since this coordinator began.");
  for (const v1::Restarts& one : view.restarts())
    restarts.Add("cause", KeyOf(v1::EndedRound::Kind_Name(one.kind()), "KIND_"), static_cast<double>(one.count()));
  Family left(out, "muster_restart_budget_remaining", "gauge",
              "What is left of the limits of restarts; none of a limit of 0.");
  if (view.left().max_restarts() > 0) left.Add("budget", "max_restarts", view.left().restarts());
  if (view.left().max_node_losses() > 0) left.Add("budget", "max_node_losses", view.left().node_losses());
}

void AddRecoveries(const v1::RecoveryTimes& times, std::string* out) {
  Family family(out, "muster_recovery_seconds", "histogram",
                "Time of the phases of recoveries, since this coordinator began.");
  for (const v1::PhaseTimes& phase : times.phases()) {
    if (phase.phase() == "start" && phase.count() == 0) continue;  // perhaps nobody looks for signs of life
    for (int i = 0; i < std::min(phase.within_size(), times.bounds_ms_size()); ++i) {
      family.AddRow("_bucket",
                    {{"phase", phase.phase()}, {"le", absl::StrFormat("%g", Seconds(times.bounds_ms(i)))}},
                    static_cast<double>(phase.within(i)));
    }
    family.AddRow("_bucket", {{"phase", phase.phase()}, {"le", "+Inf"}}, static_cast<double>(phase.count()));
    family.AddRow("_sum", {{"phase", phase.phase()}}, Seconds(phase.sum_ms()));
    family.AddRow("_count", {{"phase", phase.phase()}}, static_cast<double>(phase.count()));
  }
}

// Time before the first step is only called so once there is one: here it is a part of "running", so that no
// counter goes down.
void AddTime(const v1::TimeSpent& time, std::string* out) {
  Family family(out, "muster_time_seconds_total", "counter",
                "Where the time went since this coordinator began (docs/status.md).");
  const std::pair<const char*, int64_t> kinds[] = {
      {"waiting", time.waiting_ms()},     {"restarting", time.restarting_ms()},
      {"starting", time.starting_ms()},   {"stepping", time.stepping_ms()},
      {"repeating", time.repeating_ms()}, {"running", time.running_ms() + time.warming_up_ms()},
      {"stalled", time.stalled_ms()}};
  for (const auto& [kind, ms] : kinds) family.Add("kind", kind, Seconds(ms));
}

// What is not known has no series.
void AddProgress(const v1::Progress& progress, absl::Time now, std::string* out) {
  if (progress.median_step() > 0) {
    Family steps(out, "muster_step", "gauge",
                 "Newest step of the median rank, and of the one that is furthest behind.");
    steps.Add("stat", "median", static_cast<double>(progress.median_step()));
    // None is furthest behind: all have the same.
    const int64_t slowest = progress.slowest_step() > 0 ? progress.slowest_step() : progress.median_step();
    steps.Add("stat", "slowest", static_cast<double>(slowest));
  }
  if (progress.has_quiet_ms()) {
    Family(out, "muster_last_sign_of_life_timestamp_seconds", "gauge", "When a worker last showed a sign of life.")
        .Add(Moment(now, progress.quiet_ms()));
  }
  if (progress.has_progress_file_ms()) {
    Family(out, "muster_progress_file_timestamp_seconds", "gauge", "When a progress file was last touched.")
        .Add(Moment(now, progress.progress_file_ms()));
  }
}

}  // namespace

std::string MetricsText(const View& view, const std::string& version, absl::Time now, absl::Time began) {
  std::string out;
  Family(&out, "muster_build_info", "gauge", "The version of the coordinator.").Add("version", version, 1);
  Family(&out, "muster_coordinator_start_time_seconds", "gauge",
         "When this coordinator began; each takeover changes it.")
      .Add(Moment(began, 0));
  Family(&out, "muster_job_info", "gauge", "The job's run id.").Add("run_id", view.run_id(), 1);
  Family(&out, "muster_job_attention", "gauge",
         "1: a person should look at the job, as muster status says; 0: it is well.")
      .Add(IsWell(view) ? 0 : 1);
  Family states(&out, "muster_job_state", "gauge", "1 for the state of the job, 0 for the others.");
  AddEach(
      View::State_MAX, [](View::State state) { return View::State_Name(state); }, "STATE_", {{view.state(), 1}},
      &states);
  AddNodes(view, &out);
  AddRounds(view, &out);
  AddRecoveries(view.recoveries(), &out);
  AddTime(view.time(), &out);
  AddProgress(view.progress(), now, &out);
  return out;
}

}  // namespace muster::rendezvous
