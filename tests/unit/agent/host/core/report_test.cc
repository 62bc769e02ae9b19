// The report of a job's end in its forms.
#include "agent/host/core/report.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace muster::host {
namespace {

using nlohmann::json;

v1::Failure Failed(int rank) {
  v1::Failure failure;
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
                  "  traceback : not captured; decorate main() with torch's @record\n"
                  "  output    : the last lines of its standard error:\n"
                  "    one\n"
                  "    two\n"
                  "  hint      : look there\n"))
      << report;
}

TEST(Report, OtherFailuresComeFirstNumberedFromOne) {
  JobEnd end = End();
  *end.verdict->add_other_failures() = Failed(8);
  v1::Failure echo = Failed(10);
  echo.set_signal(15);
  echo.set_after_our_signal(true);
  *end.verdict->add_other_failures() = echo;
  end.verdict->set_more_failures(3);
  const std::string report = FailureReport(end);
  const size_t first = report.find("[1]:\n"), second = report.find("[2]:\n"), root = report.find("[0]:\n");
  EXPECT_LT(first, second);
  EXPECT_LT(second, root);
  EXPECT_TRUE(Has(report, "received by PID 4710: sent by muster after the first failure\n")) << report;
  EXPECT_TRUE(Has(report, "\n  and 3 more\n")) << report;
  EXPECT_FALSE(Has(report, "NO_OTHER"));
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

}  // namespace
}  // namespace muster::host
