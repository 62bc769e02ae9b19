// The format is that of torch.distributed.elastic's ChildFailedError (torch 2.13), so that scripts and people find
// every row that they know. What muster knows beyond it is appended to a row or has its own row.
#include "agent/host/core/report.h"

#include <algorithm>
#include <csignal>
#include <nlohmann/json.hpp>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "base/text/signal_name.h"
#include "base/text/text.h"
#include "base/wire/failure.h"
#include "base/wire/ids.h"
#include "base/wire/sidecar.h"
#include "base/wire/time_spent.h"

namespace muster::host {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kMaxRule = 60;        // characters of a separator line, as in torchrun's report
constexpr size_t kMaxLastWords = 300;  // bytes of them in a brief report
constexpr char kNone[] = "<N/A>";
constexpr char kNoTraceback[] = "not captured; decorate main() with torch's @record";
constexpr char kInOutput[] = "see the output below; torch's @record on main() would record it whole";

bool HasFailedWorker(const JobEnd& end) {
  return end.verdict && end.verdict->has_root_cause() && end.verdict->exit_code() != 0;
}

std::string TimeText(const v1::Failure& failure, const absl::TimeZone& zone) {
  if (failure.wall_time_s() == 0) return kNone;
  return absl::FormatTime("%Y-%m-%d_%H:%M:%S", absl::FromUnixSeconds(failure.wall_time_s()), zone);
}

std::string ExitText(const v1::Failure& failure) {
  const std::string process = failure.pid() > 0 ? absl::StrCat("pid: ", failure.pid()) : "never started";
  std::string text = absl::StrCat(SignedExitCode(failure), " (", process, ")");
  const std::string name = failure.has_signal() ? SignalName(failure.signal()) : "";
  if (!name.empty()) absl::StrAppend(&text, "  (", name, ")");  // torchrun has two spaces here
  return text;
}

bool IsEcho(const v1::Failure& failure) {
  return failure.after_our_signal() && failure.has_signal() &&
         (failure.signal() == SIGTERM || failure.signal() == SIGKILL);
}

// The worker's own message, else the signal that ended it; empty if only the exit code is known.
std::string Message(const v1::Failure& failure) {
  if (!failure.error_text().empty()) return failure.error_text();
  if (failure.has_signal()) {
    const std::string name = SignalName(failure.signal());
    return absl::StrCat("Signal ", failure.signal(), " (", name.empty() ? kNone : name, ") received by PID ",
                        failure.pid(), IsEcho(failure) ? ": sent by muster after the first failure" : "");
  }
  return "";
}

std::string Or(const std::string& text, const std::string& otherwise) { return text.empty() ? otherwise : text; }

std::string Remarks(const v1::Failure& failure) {
  std::vector<std::string> remarks;
  if (failure.oom_killed()) remarks.emplace_back("killed because memory ran out");
  if (failure.core_dumped()) remarks.emplace_back("core dumped");
  std::string text;
  for (const std::string& remark : remarks) absl::StrAppend(&text, text.empty() ? "" : ", ", remark);
  return text;
}

// The text with every line but the first indented.
std::string Indented(const std::string& text, const char* indent) {
  const std::string clean = Printable(text);
  const size_t last = clean.find_last_not_of("\n ");
  return absl::StrReplaceAll(clean.substr(0, last == std::string::npos ? 0 : last + 1),
                             {{"\n", absl::StrCat("\n", indent)}});
}

// A node that could not start its program had no round, and so no rank.
bool HasRank(const v1::Failure& failure) { return IsSet(failure.round()); }

std::string NameOf(const v1::Failure& failure) {
  return absl::StrCat(OneLine(failure.host()),
                      HasRank(failure) ? absl::StrCat(" (node ", failure.node_rank(), ")") : "");
}

// "rank 9 (local_rank: 1)"
std::string RankText(const v1::Failure& failure) {
  return absl::StrCat(failure.rank(), " (local_rank: ", failure.local_rank(), ")");
}

std::string Block(int index, const v1::Failure& failure, const absl::TimeZone& zone) {
  const std::string traceback =
      Or(Or(failure.callstack(), Message(failure)), failure.last_output().empty() ? kNoTraceback : kInOutput);
  std::string block = absl::StrCat(
      "[", index, "]:\n", "  time      : ", TimeText(failure, zone), "\n", "  host      : ", NameOf(failure), "\n",
      "  rank      : ", HasRank(failure) ? RankText(failure) : kNone, "\n", "  exitcode  : ", ExitText(failure),
      "\n", "  error_file: ", Or(OneLine(failure.error_file()), kNone), "\n",
      "  traceback : ", Indented(traceback, "  "), "\n");
  const std::string remarks = Remarks(failure);
  if (!remarks.empty()) absl::StrAppend(&block, "  remarks   : ", remarks, "\n");
  // With a recorded traceback the output mostly repeats it.
  if (failure.callstack().empty() && !failure.last_output().empty()) {
    absl::StrAppend(&block, "  output    : the last lines that it wrote:\n    ",
                    Indented(failure.last_output(), "    "), "\n");
  }
  if (!failure.hint().empty()) absl::StrAppend(&block, "  hint      : ", Indented(failure.hint(), "  "), "\n");
  return block;
}

// What a person would look for first in a worker's own words.
std::string LastWords(const v1::Failure& failure) {
  for (const std::string* text : {&failure.error_text(), &failure.callstack(), &failure.last_output()}) {
    const std::string line = LastLine(Printable(*text));
    if (!line.empty()) return CutUtf8(OneLine(line), kMaxLastWords);
  }
  return "";
}

double Seconds(absl::Duration time) { return absl::ToDoubleSeconds(absl::Trunc(time, absl::Milliseconds(1))); }

Json TextOrNull(const std::string& text) { return text.empty() ? Json() : Json(text); }

Json FailureObject(const v1::Failure& failure) {
  Json object;
  for (const auto& [name, number] : {std::pair("rank", failure.rank()),
                                     {"local_rank", failure.local_rank()},
                                     {"node_rank", failure.node_rank()}}) {
    object[name] = HasRank(failure) ? Json(number) : Json();
  }
  object["host"] = failure.host();
  object["pid"] = failure.pid() > 0 ? Json(failure.pid()) : Json();
  object["exitcode"] = SignedExitCode(failure);
  object["signal"] = failure.has_signal() ? Json(SignalName(failure.signal())) : Json();
  object["core_dumped"] = failure.core_dumped();
  object["oom_killed"] = failure.oom_killed();
  object["hung"] = failure.hung();
  object["after_our_signal"] = failure.after_our_signal();
  object["time"] = failure.wall_time_s() == 0 ? Json() : Json(failure.wall_time_s());
  object["error_file"] = TextOrNull(failure.error_file());
  object["message"] = TextOrNull(Message(failure));
  object["traceback"] = TextOrNull(failure.callstack());
  object["output"] = TextOrNull(failure.last_output());
  object["hint"] = TextOrNull(failure.hint());
  return object;
}

Json RoundObject(const v1::Round& round) {
  Json object;
  object["number"] = round.id().number();
  object["node_rank"] = round.has_node_rank() ? Json(round.node_rank()) : Json();
  object["node_count"] = round.node_count();
  object["world_size"] = round.world_size();
  object["restart_count"] = round.restart_count();
  object["worker_failures"] = round.failures();  // earlier rounds that a worker's failure ended
  object["node_losses"] = round.loss_ages_ms_size();
  object["max_restarts"] = round.max_restarts();
  return object;
}

// restart_count: of the newest round. A node that came later, or again, knows of earlier restarts by their number
// alone.
Json RestartsObject(const Restarts& restarts, int64_t restart_count) {
  Json object;
  object["lost_s"] = Seconds(restarts.lost);
  object["earlier"] =
      std::max<int64_t>(restarts.earlier, restart_count - static_cast<int64_t>(restarts.newest.size()));
  Json list = Json::array();
  for (const Restart& restart : restarts.newest) {
    Json one;
    one["round"] = restart.round;
    one["cause"] = restart.cause;
    one["ran_s"] = Seconds(restart.ran);
    one["lost_s"] = Seconds(restart.lost);
    list.push_back(std::move(one));
  }
  object["newest"] = std::move(list);
  return object;
}

// Invalid UTF-8 is replaced, because a path or host name need not be UTF-8 and the library would throw.
std::string Dump(const Json& json, JsonLayout layout) {
  return json.dump(layout == JsonLayout::kIndented ? 2 : -1, ' ', false, Json::error_handler_t::replace) + "\n";
}

// Whether a worker of this node failed and no coordinator has said what follows from it.
bool HasOwnFailure(const JobEnd& end) { return !end.verdict && end.own_failure; }

std::string OwnFailureReport(const JobEnd& end) {
  const std::string border(kMaxRule, '=');
  return absl::StrCat(border, "\n", OneLine(end.program),
                      ": a worker of this node had failed, which no coordinator has judged\n",
                      Block(0, *end.own_failure, end.zone), border, "\n");
}

}  // namespace

int SignedExitCode(const v1::Failure& failure) {
  return failure.has_signal() ? -failure.signal() : failure.exit_code();
}

std::string Printable(const std::string& text) {
  std::string clean;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if (byte == 0x1b) {
      if (i + 1 < text.size() && text[i + 1] == '[') {  // ESC [ parameters letter: colours, cursor movement
        i += 2;
        while (i < text.size() && (text[i] < '@' || text[i] > '~')) ++i;
      }
      continue;
    }
    if ((byte >= 0x20 && byte != 0x7f) || byte == '\n' || byte == '\t') clean += text[i];
  }
  return clean;
}

std::string FailureReport(const JobEnd& end) {
  if (HasOwnFailure(end)) return OwnFailureReport(end);
  if (!HasFailedWorker(end)) return "";
  const v1::Verdict& verdict = *end.verdict;
  const std::string title = absl::StrCat(OneLine(end.program), " FAILED");
  const std::string root = Block(0, verdict.root_cause(), end.zone);
  std::string others;
  int shown = 0, stopped = 0;
  for (const v1::Failure& other : verdict.other_failures()) {
    const bool says_nothing =
        IsEcho(other) && other.error_text().empty() && other.hint().empty() && !other.oom_killed();
    if (!says_nothing) others += Block(++shown, other, end.zone);
    stopped += says_nothing ? 1 : 0;
  }
  if (stopped > 0) absl::StrAppend(&others, "  ", stopped, " that muster stopped after the first failure\n");
  if (verdict.more_failures() > 0) absl::StrAppend(&others, "  and ", verdict.more_failures(), " more\n");
  if (others.empty()) others = "  <NO_OTHER_FAILURES>\n";
  size_t width = title.size();
  const std::vector<std::string> lines = absl::StrSplit(absl::StrCat(root, others), '\n');
  for (const std::string& line : lines) {
    width = std::max(width, line.size());
  }
  width = std::min(width, kMaxRule);
  const std::string border(width, '=');
  const std::string section(width, '-');
  return absl::StrCat(border, "\n", title, "\n", section, "\nFailures:\n", others, section,
                      "\nRoot Cause (first observed failure):\n", root, border, "\n");
}

bool PrintsWholeReport(const JobEnd& end, ReportOn report_on) {
  if (report_on == ReportOn::kAll || end.tells_all || !HasFailedWorker(end)) return true;
  const v1::Failure& cause = end.verdict->root_cause();
  // A node that cannot start has no round yet.
  if (!HasRank(cause)) return cause.host() == end.host;
  const bool was_member = end.last.has_node_rank() && Same(cause.round(), end.last.id());
  return was_member && cause.node_rank() == end.last.node_rank();
}

ReportInBrief BriefReport(const JobEnd& end, const std::string& report_file) {
  if (!HasFailedWorker(end)) return {};
  const v1::Failure& cause = end.verdict->root_cause();
  const std::string words = LastWords(cause);
  const std::string rank = HasRank(cause) ? absl::StrCat("rank ", cause.rank(), " on ") : "";
  return {.cause = absl::StrCat("the first failure: ", rank, NameOf(cause), ", exitcode ", ExitText(cause),
                                words.empty() ? "" : ": ", words),
          .whereabouts = absl::StrCat("the whole report is in the output of ", NameOf(cause), " and of the ",
                                      end.coordinator_alone ? "coordinator" : "primary",
                                      report_file.empty() ? "" : ", and here in ", report_file,
                                      "; --report-on all prints it on every node")};
}

std::string ResultJson(const std::string& host_id, const std::string& pod, int exit_code) {
  return nlohmann::json{{kResultHostId, host_id}, {kResultPod, pod}, {kResultExitCode, exit_code}}.dump();
}

std::string ReportJson(const JobEnd& end, JsonLayout layout) {
  Json json;
  json["exit_code"] = end.exit_code;
  json["origin"] = end.origin;
  json["reason"] = end.reason;
  json["program"] = end.program;
  json["run_id"] = end.run_id;
  json["host"] = end.host;
  json["version"] = end.version;
  json["started"] = absl::ToDoubleSeconds(end.started - absl::UnixEpoch());
  json["ended"] = absl::ToDoubleSeconds(end.ended - absl::UnixEpoch());
  json["round"] = IsSet(end.last.id()) ? RoundObject(end.last) : Json();
  json["restarts"] = RestartsObject(end.restarts, end.last.restart_count());
  const bool has_time = end.verdict && end.verdict->has_time();
  json["time"] = has_time ? TimeObject(end.verdict->time()) : Json();
  const bool failed = HasFailedWorker(end);
  json["root_cause"] = failed ? FailureObject(end.verdict->root_cause()) : Json();
  Json others = Json::array();
  if (failed) {
    for (const v1::Failure& other : end.verdict->other_failures()) others.push_back(FailureObject(other));
  }
  json["other_failures"] = others;
  json["more_failures"] = failed ? end.verdict->more_failures() : 0;
  json["own_failure"] = HasOwnFailure(end) ? FailureObject(*end.own_failure) : Json();
  return Dump(json, layout);
}

std::string ErrorFileJson(const JobEnd& end) {
  if (!HasFailedWorker(end)) return "";
  const v1::Failure& cause = end.verdict->root_cause();
  Json message;
  const std::string message_text = Or(Message(cause), absl::StrCat("exit code ", cause.exit_code()));
  message["message"] = message_text;
  message["extraInfo"]["py_callstack"] = Or(Or(cause.callstack(), cause.last_output()), message_text);
  message["extraInfo"]["timestamp"] = absl::StrCat(cause.wall_time_s());
  message["errorCode"] = SignedExitCode(cause);
  Json json;
  json["message"] = message;
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string TerminationMessage(const JobEnd& end, size_t max_bytes) {
  std::string text = absl::StrCat("exit code ", end.exit_code, " (", end.origin, "): ", end.reason, "\n");
  if (HasFailedWorker(end) || HasOwnFailure(end)) {
    const v1::Failure& cause = HasOwnFailure(end) ? *end.own_failure : end.verdict->root_cause();
    if (HasOwnFailure(end)) absl::StrAppend(&text, "a worker of this node had failed: ");
    if (HasRank(cause)) absl::StrAppend(&text, "rank ", RankText(cause), " on ");
    absl::StrAppend(&text, NameOf(cause), ", exitcode ", ExitText(cause), ", ", TimeText(cause, end.zone), "\n");
    const std::string remarks = Remarks(cause);
    if (!remarks.empty()) absl::StrAppend(&text, remarks, "\n");
    if (!cause.hint().empty()) absl::StrAppend(&text, cause.hint(), "\n");
    const std::string message_text = Message(cause);
    if (!message_text.empty()) absl::StrAppend(&text, message_text, "\n");
    const std::string& more = cause.callstack().empty() ? cause.last_output() : cause.callstack();
    // The end of the output is the most useful part.
    const std::string head = CutUtf8(Printable(text), max_bytes / 2);
    return absl::StrCat(head, CutUtf8Front(Printable(more), max_bytes - head.size()));
  }
  return CutUtf8(Printable(text), max_bytes);
}

std::string FailureFileText(const JobEnd& end) {
  return end.exit_code == 0 ? "" : TerminationMessage(end, kMaxFailureFileBytes);
}

}  // namespace muster::host
