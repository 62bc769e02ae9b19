// The report of a job's end in its forms.
#include "agent/host/core/report.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace muster::host {
namespace {

using nlohmann::json;

v1::RoundId Number(uint64_t number) {
  v1::RoundId id;
  id.set_number(number);
  id.mutable_epoch()->set_number(1);
  id.mutable_epoch()->set_random(7);
  return id;
}

v1::Failure Failed(int rank) {
  v1::Failure failure;
  *failure.mutable_round() = Number(3);
  failure.set_host("gpu-08");
  failure.set_node_rank(1);
  failure.set_rank(rank);
  failure.set_local_rank(rank - 8);
  failure.set_pid(4700 + rank);
  failure.set_exit_code(7);
  failure.set_wall_time_s(1'700'000'000);
  return failure;
}

JobEnd End() {
  JobEnd end;
  end.exit_code = 7;
  end.origin = "worker";
  end.reason = "rank 9 on gpu-08 exited with code 7";
  end.program = "train.py";
  end.host = "gpu-00";
  end.run_id = "r";
  end.zone = absl::UTCTimeZone();
  end.verdict.emplace();
  end.verdict->set_exit_code(7);
  *end.verdict->mutable_root_cause() = Failed(9);
  return end;
}

v1::Failure* Cause(JobEnd* end) { return end->verdict->mutable_root_cause(); }

bool Has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST(Report, HasTorchrunsForm) {
  JobEnd end = End();
  Cause(&end)->set_error_text("ValueError: x");
  EXPECT_EQ(FailureReport(end),
            "=================================\n"
            "train.py FAILED\n"
            "---------------------------------\n"
            "Failures:\n"
            "  <NO_OTHER_FAILURES>\n"
            "---------------------------------\n"
            "Root Cause (first observed failure):\n"
            "[0]:\n"
            "  time      : 2023-11-14_22:13:20\n"
            "  host      : gpu-08 (node 1)\n"
            "  rank      : 9 (local_rank: 1)\n"
            "  exitcode  : 7 (pid: 4709)\n"
            "  error_file: <N/A>\n"
            "  traceback : ValueError: x\n"
            "=================================\n");
}

TEST(Report, AWorkerWithoutAProcessHasNoPid) {
  JobEnd end = End();
  Cause(&end)->set_exit_code(70);
  Cause(&end)->set_pid(0);
  const std::string text = FailureReport(end);
  EXPECT_TRUE(Has(text, "exitcode  : 70 (never started)\n")) << text;
  EXPECT_TRUE(json::parse(ReportJson(end, JsonLayout::kIndented))["root_cause"]["pid"].is_null());
}

TEST(Report, ANodeThatCannotStartHasNoRank) {
  JobEnd end = End();
  Cause(&end)->clear_round();
  EXPECT_TRUE(Has(FailureReport(end), "host      : gpu-08\n  rank      : <N/A>\n")) << FailureReport(end);
  EXPECT_TRUE(Has(TerminationMessage(end), "\ngpu-08, exitcode 7")) << TerminationMessage(end);
  for (const char* name : {"rank", "local_rank", "node_rank"})
    EXPECT_TRUE(json::parse(ReportJson(end))["root_cause"][name].is_null()) << name;
}

TEST(FailureFile, HasTheCauseWithinItsLimit) {
  JobEnd end = End();
  Cause(&end)->set_callstack(std::string(3000, 'x') + "ValueError: the last line");
  const std::string text = FailureFileText(end);
  EXPECT_LE(text.size(), kMaxFailureFileBytes);
  EXPECT_TRUE(Has(text, "rank 9 (local_rank: 1) on gpu-08 (node 1), exitcode 7")) << text;
  EXPECT_TRUE(Has(text, "ValueError: the last line")) << text;
  end.exit_code = 0;
  EXPECT_EQ(FailureFileText(end), "");
}

TEST(Report, ASignalIsANegativeCodeWithItsNameAndAMessage) {
  JobEnd end = End();
  Cause(&end)->set_signal(11);
  Cause(&end)->set_core_dumped(true);
  const std::string report = FailureReport(end);
  EXPECT_TRUE(Has(report, "  exitcode  : -11 (pid: 4709)  (SIGSEGV)\n")) << report;
  EXPECT_TRUE(Has(report, "  traceback : Signal 11 (SIGSEGV) received by PID 4709\n")) << report;
  EXPECT_TRUE(Has(report, "  remarks   : core dumped\n")) << report;
}

TEST(Report, AnOutOfMemoryKillIsReported) {
  JobEnd end = End();
  Cause(&end)->set_signal(9);
  Cause(&end)->set_oom_killed(true);
  EXPECT_TRUE(Has(FailureReport(end), "  remarks   : killed because memory ran out\n"));
}

TEST(Report, TheCallstackReplacesMessageAndOutput) {
  JobEnd end = End();
  Cause(&end)->set_error_text("ValueError: x");
  Cause(&end)->set_callstack("Traceback (most recent call last):\n  File \"a\"\nValueError: x\n");
  Cause(&end)->set_last_output("the same once more");
  Cause(&end)->set_error_file("/logs/0/error.json");
  const std::string report = FailureReport(end);
  EXPECT_TRUE(Has(report,
                  "  error_file: /logs/0/error.json\n"
                  "  traceback : Traceback (most recent call last):\n"
                  "    File \"a\"\n"
                  "  ValueError: x\n"
                  "===="))
      << report;
}

TEST(Report, WithoutACallstackTheLastOutputIsShown) {
  JobEnd end = End();
  Cause(&end)->set_last_output("one\n\033[31mtwo\033[0m\a");
  Cause(&end)->set_hint("look there");
  const std::string report = FailureReport(end);
  EXPECT_TRUE(Has(report,
                  "  traceback : see the output below; torch's @record on main() would record it whole\n"
                  "  output    : the last lines that it wrote:\n"
                  "    one\n"
                  "    two\n"
                  "  hint      : look there\n"))
      << report;
}

TEST(Report, OtherFailuresComeFirstNumberedFromOne) {
  JobEnd end = End();
  *end.verdict->add_other_failures() = Failed(8);
  *end.verdict->add_other_failures() = Failed(10);
  end.verdict->set_more_failures(3);
  const std::string report = FailureReport(end);
  const size_t first = report.find("[1]:\n"), second = report.find("[2]:\n"), root = report.find("[0]:\n");
  EXPECT_LT(first, second);
  EXPECT_LT(second, root);
  EXPECT_TRUE(Has(report, "\n  and 3 more\n")) << report;
  EXPECT_FALSE(Has(report, "NO_OTHER"));
}

TEST(Report, WorkersThatMusterStoppedAreOnlyCounted) {
  JobEnd end = End();
  for (const int rank : {8, 9, 10}) {
    v1::Failure echo = Failed(rank);
    echo.set_signal(15);
    echo.set_after_our_signal(true);
    if (rank == 8) echo.set_error_text("what it reported");
    *end.verdict->add_other_failures() = echo;
  }
  const std::string report = FailureReport(end);
  EXPECT_TRUE(Has(report, "what it reported\n  2 that muster stopped after the first failure\n")) << report;
  EXPECT_FALSE(Has(report, "[2]:\n")) << report;
}

TEST(Report, AnUnknownTimeIsLeftOut) {
  JobEnd end = End();
  Cause(&end)->clear_wall_time_s();
  EXPECT_TRUE(Has(FailureReport(end), "  time      : <N/A>\n"));
}

TEST(Report, ThereIsNoReportWithoutAFailedWorker) {
  JobEnd lost = End();
  lost.verdict->clear_root_cause();
  JobEnd left = End();
  left.verdict.reset();
  JobEnd good = End();
  good.verdict->set_exit_code(0);
  for (const JobEnd& end : {lost, left, good}) {
    EXPECT_EQ(FailureReport(end), "");
    EXPECT_EQ(ErrorFileJson(end), "");
    EXPECT_TRUE(json::parse(ReportJson(end))["root_cause"].is_null());
  }
}

// The primary was lost right after the failure.
JobEnd WithoutAVerdict() {
  JobEnd end = End();
  end.exit_code = 69;
  end.origin = "muster";
  end.reason = "the primary is lost";
  end.own_failure = end.verdict->root_cause();
  end.verdict.reset();
  end.own_failure->set_error_text("ValueError: x");
  return end;
}

TEST(Report, AFailureThatNoCoordinatorHasJudgedIsShownAsSuch) {
  const std::string text = FailureReport(WithoutAVerdict());
  EXPECT_TRUE(Has(text, "train.py: a worker of this node had failed, which no coordinator has judged\n")) << text;
  EXPECT_TRUE(Has(text, "  traceback : ValueError: x\n")) << text;
  EXPECT_FALSE(Has(text, "Root Cause")) << text;
  EXPECT_TRUE(PrintsWholeReport(WithoutAVerdict(), ReportOn::kConcerned));
}

TEST(ReportJson, HasAFailureThatNoCoordinatorHasJudged) {
  const json report = json::parse(ReportJson(WithoutAVerdict()));
  EXPECT_TRUE(report["root_cause"].is_null());
  EXPECT_EQ(report["own_failure"]["rank"], 9);
  EXPECT_TRUE(json::parse(ReportJson(End()))["own_failure"].is_null());
}

TEST(TerminationMessage, NamesAFailureThatNoCoordinatorHasJudged) {
  const std::string text = TerminationMessage(WithoutAVerdict());
  EXPECT_TRUE(Has(text, "the primary is lost\na worker of this node had failed: rank 9 ")) << text;
  EXPECT_TRUE(Has(text, "ValueError: x")) << text;
}

TEST(ReportJson, HasResultReasonPlaceAndCounts) {
  JobEnd end = End();
  Cause(&end)->set_signal(9);
  end.last.mutable_id()->set_number(4);
  end.last.set_restart_count(3);
  end.last.set_failures(2);
  end.last.add_loss_ages_ms(5);
  end.last.set_node_rank(0);
  end.started = absl::FromUnixSeconds(100);
  end.ended = absl::FromUnixSeconds(160);
  const json report = json::parse(ReportJson(end));
  EXPECT_EQ(report["exit_code"], 7);
  EXPECT_EQ(report["origin"], "worker");
  EXPECT_EQ(report["reason"], end.reason);
  EXPECT_EQ(report["host"], "gpu-00");
  EXPECT_EQ(report["started"], 100.0);
  EXPECT_EQ(report["ended"], 160.0);
  EXPECT_EQ(report["round"]["number"], 4);
  EXPECT_EQ(report["round"]["restart_count"], 3);
  EXPECT_EQ(report["round"]["worker_failures"], 2);
  EXPECT_EQ(report["round"]["node_losses"], 1);
  EXPECT_EQ(report["root_cause"]["exitcode"], -9);
  EXPECT_EQ(report["root_cause"]["signal"], "SIGKILL");
  EXPECT_EQ(report["root_cause"]["host"], "gpu-08");
}

TEST(ReportJson, InvalidUtf8DoesNotStopIt) {
  JobEnd end = End();
  end.program = "\xff.py";
  EXPECT_EQ(json::parse(ReportJson(end))["exit_code"], 7);
}

TEST(ErrorFile, HasTorchsShapeWithTheExitCode) {
  JobEnd end = End();
  Cause(&end)->set_error_text("ValueError: x");
  Cause(&end)->set_callstack("Traceback");
  EXPECT_EQ(ErrorFileJson(end), R"({"message":{"message":"ValueError: x","extraInfo":{"py_callstack":"Traceback",)"
                                R"("timestamp":"1700000000"},"errorCode":7}})");
}

TEST(ErrorFile, WithoutAMessageHasCodeAndLastLines) {
  JobEnd end = End();
  Cause(&end)->set_last_output("why");
  const json message = json::parse(ErrorFileJson(end))["message"];
  EXPECT_EQ(message["message"], "exit code 7");
  EXPECT_EQ(message["extraInfo"]["py_callstack"], "why");
  EXPECT_TRUE(json::parse(ReportJson(end))["root_cause"]["message"].is_null());
}

TEST(TerminationMessage, IsShortAndKeepsTheReasonAndTheLastLine) {
  JobEnd end = End();
  Cause(&end)->set_error_text(std::string(4000, 'e'));
  std::string stack(4000, 's');
  stack += "\nValueError: the end";
  Cause(&end)->set_callstack(stack);
  const std::string message = TerminationMessage(end);
  EXPECT_LE(message.size(), kMaxTerminationBytes);
  EXPECT_EQ(message.rfind("exit code 7 (worker): rank 9", 0), 0u) << message;
  EXPECT_TRUE(Has(message, "rank 9 (local_rank: 1) on gpu-08 (node 1), exitcode 7")) << message;
  EXPECT_TRUE(message.ends_with("ValueError: the end")) << message;
}

TEST(TerminationMessage, OneLineIfTheJobSucceeded) {
  JobEnd end;
  end.origin = "worker";
  end.reason = "all exited 0";
  EXPECT_EQ(TerminationMessage(end), "exit code 0 (worker): all exited 0\n");
}

TEST(ReportJson, AFailureHasEachFieldOrNull) {
  JobEnd end = End();
  v1::Failure* cause = Cause(&end);
  json object = json::parse(ReportJson(end))["root_cause"];
  EXPECT_EQ(object["rank"], 9);
  EXPECT_EQ(object["local_rank"], 1);
  EXPECT_EQ(object["node_rank"], 1);
  EXPECT_EQ(object["pid"], 4709);
  EXPECT_EQ(object["time"], 1'700'000'000);
  for (const char* name : {"signal", "error_file", "message", "traceback", "output", "hint"}) {
    EXPECT_TRUE(object[name].is_null()) << name;
  }
  for (const char* name : {"core_dumped", "oom_killed", "after_our_signal"})
    EXPECT_EQ(object[name], false) << name;
  cause->clear_wall_time_s();
  cause->set_core_dumped(true);
  cause->set_oom_killed(true);
  cause->set_after_our_signal(true);
  cause->set_error_file("f");
  cause->set_error_text("m");
  cause->set_callstack("t");
  cause->set_last_output("o");
  cause->set_hint("h");
  object = json::parse(ReportJson(end))["root_cause"];
  EXPECT_TRUE(object["time"].is_null());
  for (const char* name : {"core_dumped", "oom_killed", "after_our_signal"}) EXPECT_EQ(object[name], true) << name;
  EXPECT_EQ(object["error_file"], "f");
  EXPECT_EQ(object["message"], "m");
  EXPECT_EQ(object["traceback"], "t");
  EXPECT_EQ(object["output"], "o");
  EXPECT_EQ(object["hint"], "h");
}

TEST(ReportJson, TheRoundIsNullBeforeTheFirstOne) {
  JobEnd end = End();
  EXPECT_TRUE(json::parse(ReportJson(end))["round"].is_null());
  end.last.mutable_id()->set_number(1);
  end.last.set_node_count(2);
  end.last.set_world_size(16);
  end.last.set_max_restarts(3);
  const json round = json::parse(ReportJson(end))["round"];
  EXPECT_TRUE(round["node_rank"].is_null()) << "this node was not in it";
  EXPECT_EQ(round["node_count"], 2);
  EXPECT_EQ(round["world_size"], 16);
  EXPECT_EQ(round["max_restarts"], 3);
}

TEST(ReportJson, ANodeThatCameLaterKnowsTheNumberOfEarlierRestarts) {
  JobEnd end = End();
  end.last.mutable_id()->set_number(5);
  end.last.set_restart_count(4);
  EXPECT_EQ(json::parse(ReportJson(end))["restarts"]["earlier"], 4);
  end.restarts.newest.resize(3);
  EXPECT_EQ(json::parse(ReportJson(end))["restarts"]["earlier"], 1);
}

TEST(ReportJson, HasTheProgramTheRunAndTheOtherFailures) {
  JobEnd end = End();
  end.version = "1.2";
  *end.verdict->add_other_failures() = Failed(8);
  end.verdict->set_more_failures(2);
  const json report = json::parse(ReportJson(end));
  EXPECT_EQ(report["program"], "train.py");
  EXPECT_EQ(report["run_id"], "r");
  EXPECT_EQ(report["version"], "1.2");
  ASSERT_EQ(report["other_failures"].size(), 1u);
  EXPECT_EQ(report["other_failures"][0]["rank"], 8);
  EXPECT_EQ(report["more_failures"], 2);
}

TEST(ReportJson, IsIndentedOrOneLine) {
  const std::string indented = ReportJson(End(), JsonLayout::kIndented);
  const std::string line = ReportJson(End(), JsonLayout::kOneLine);
  EXPECT_EQ(std::count(line.begin(), line.end(), '\n'), 1);
  EXPECT_TRUE(Has(indented, "\n  \"exit_code\": 7,")) << indented;
}

TEST(Report, ItsLinesAreOfTorchrunsWidth) {
  JobEnd end = End();
  Cause(&end)->set_error_text(std::string(200, 'x'));
  EXPECT_EQ(FailureReport(end).find('\n'), 60u);
}

TEST(Report, OnlyOurOwnSignalsMakeAnEcho) {
  const auto says = [](int signal, bool after) {
    JobEnd end = End();
    if (signal > 0) Cause(&end)->set_signal(signal);
    Cause(&end)->set_after_our_signal(after);
    return Has(FailureReport(end), "sent by muster after the first failure");
  };
  EXPECT_TRUE(says(15, true));
  EXPECT_TRUE(says(9, true));
  EXPECT_FALSE(says(11, true));
  EXPECT_FALSE(says(9, false));
  EXPECT_FALSE(says(0, true));
}

TEST(TerminationMessage, HasRemarksHintAndMessageWhereThereAreSome) {
  JobEnd end = End();
  const std::string first =
      "exit code 7 (worker): rank 9 on gpu-08 exited with code 7\n"
      "rank 9 (local_rank: 1) on gpu-08 (node 1), exitcode 7 (pid: 4709), 2023-11-14_22:13:20\n";
  EXPECT_EQ(TerminationMessage(end), first);
  Cause(&end)->set_core_dumped(true);
  Cause(&end)->set_oom_killed(true);
  Cause(&end)->set_hint("look there");
  Cause(&end)->set_error_text("ValueError");
  EXPECT_EQ(TerminationMessage(end),
            first + "killed because memory ran out, core dumped\nlook there\nValueError\n");
}

TEST(Report, NamesOfFilesAndHostsCannotControlTheTerminal) {
  JobEnd end = End();
  end.program = "a\x1b[2Jb\n\xff.py";
  Cause(&end)->set_host("h\x1b[1m");
  Cause(&end)->set_error_file("/e\x1b[1m");
  const std::string report = FailureReport(end);
  EXPECT_TRUE(Has(report, "\na\\x1b[2Jb\\n\\xff.py FAILED\n")) << report;
  EXPECT_TRUE(Has(report, "host      : h\\x1b[1m (")) << report;
  EXPECT_TRUE(Has(report, "error_file: /e\\x1b[1m\n")) << report;
}

TEST(PrintableText, HasNoControlCharacters) {
  EXPECT_EQ(Printable("a\tb\nc"), "a\tb\nc");
  EXPECT_EQ(Printable(std::string("\x01 \x1f~\x7f\x80")), " ~\x80");
  EXPECT_EQ(Printable("\x1b[31mred\x1b[0m"), "red");
  EXPECT_EQ(Printable("\x1b[2@x\x1b[1~y"), "xy") << "any letter ends a sequence, also the first and the last";
  EXPECT_EQ(Printable("a\x1b"), "a");
  EXPECT_EQ(Printable("a\x1bX"), "aX");
  EXPECT_EQ(Printable("a\x1b["), "a");
  EXPECT_EQ(Printable("a\x1b[1"), "a");
}

TEST(ResultTest, ASidecarReadsWhoseItIsAndTheExitCode) {
  EXPECT_EQ(ResultJson("h1", "p0", 7), R"({"exit_code":7,"host_id":"h1","pod":"p0"})");
}

// ---- which nodes print it

// On a node that does not end the job, and that was node `node_rank` of the round that failed.
JobEnd EndOnNode(int node_rank) {
  JobEnd end = End();
  end.tells_all = false;
  *end.last.mutable_id() = Number(3);
  end.last.set_node_rank(node_rank);
  return end;
}

TEST(ReportOnConcerned, TheNodeThatEndsTheJobAndTheFailingOnePrintTheWholeReport) {
  EXPECT_FALSE(PrintsWholeReport(EndOnNode(2), ReportOn::kConcerned));
  EXPECT_TRUE(PrintsWholeReport(EndOnNode(2), ReportOn::kAll));
  EXPECT_TRUE(PrintsWholeReport(EndOnNode(1), ReportOn::kConcerned));
  JobEnd last = EndOnNode(2);
  last.tells_all = true;
  EXPECT_TRUE(PrintsWholeReport(last, ReportOn::kConcerned));
}

TEST(ReportOnConcerned, ANodeThatWasNoMemberIsNotNode0) {
  JobEnd end = EndOnNode(1);
  Cause(&end)->set_node_rank(0);
  end.last.clear_node_rank();
  EXPECT_FALSE(PrintsWholeReport(end, ReportOn::kConcerned));
}

TEST(ReportOnConcerned, ANodeRankOfAnotherRoundIsNotTheFailingNode) {
  JobEnd end = EndOnNode(1);
  *end.last.mutable_id() = Number(2);
  EXPECT_FALSE(PrintsWholeReport(end, ReportOn::kConcerned));
}

TEST(ReportOnConcerned, BeforeTheFirstRoundTheFailingNodeIsKnownByItsHost) {
  JobEnd end = EndOnNode(2);
  Cause(&end)->clear_round();
  EXPECT_FALSE(PrintsWholeReport(end, ReportOn::kConcerned));
  end.host = "gpu-08";
  EXPECT_TRUE(PrintsWholeReport(end, ReportOn::kConcerned));
}

TEST(BriefReport, SaysWhatFailedFirstAndWhereTheReportIs) {
  JobEnd end = EndOnNode(2);
  Cause(&end)->set_last_output("Traceback (most recent call last):\n  File x\nValueError: x\n\n");
  const ReportInBrief brief = BriefReport(end, "");
  EXPECT_EQ(brief.cause, "the first failure: rank 9 on gpu-08 (node 1), exitcode 7 (pid: 4709): ValueError: x");
  EXPECT_EQ(brief.whereabouts,
            "the whole report is in the output of gpu-08 (node 1) and of the primary; "
            "--report-on all prints it on every node");
}

TEST(BriefReport, NamesThisNodesFileAndTheCoordinatorOnItsOwn) {
  JobEnd end = EndOnNode(2);
  end.coordinator_alone = true;
  EXPECT_EQ(
      BriefReport(end, "/logs/r2.json").whereabouts,
      "the whole report is in the output of gpu-08 (node 1) and of the coordinator, and here in /logs/r2.json; "
      "--report-on all prints it on every node");
}

TEST(BriefReport, PrefersTheMessageOfTheWorkerToItsOutput) {
  JobEnd end = EndOnNode(2);
  Cause(&end)->set_last_output("bye");
  Cause(&end)->set_callstack("Traceback\nValueError: x\n");
  EXPECT_TRUE(Has(BriefReport(end, "").cause, "(pid: 4709): ValueError: x"));
  Cause(&end)->set_error_text("\x1b[31mout of memory\n");
  EXPECT_TRUE(Has(BriefReport(end, "").cause, "(pid: 4709): out of memory"));
}

TEST(BriefReport, ANodeThatCannotStartHasNoRank) {
  JobEnd end = EndOnNode(2);
  Cause(&end)->clear_round();
  EXPECT_TRUE(Has(BriefReport(end, "").cause, "the first failure: gpu-08, exitcode 7"));
}

TEST(BriefReport, IsEmptyWithoutAFailedWorker) {
  JobEnd end = EndOnNode(2);
  end.verdict.reset();
  EXPECT_EQ(BriefReport(end, "").cause, "");
  EXPECT_EQ(FailureReport(end), "");
}

}  // namespace
}  // namespace muster::host
