// The report that a person reads when a job has failed.
#include "agent/host/core/report.h"

#include <gtest/gtest.h>

namespace muster::host {
namespace {

v1::Verdict Verdict() {
  v1::Verdict verdict;
  verdict.set_exit_code(7);
  v1::Failure* failure = verdict.mutable_root_cause();
  failure->set_host("gpu-08");
  failure->set_node_rank(1);
  failure->set_rank(9);
  failure->set_local_rank(1);
  failure->set_pid(4711);
  failure->set_exit_code(7);
  return verdict;
}

TEST(Report, NamesHostNodeRankCodeAndPid) {
  EXPECT_EQ(FailureReport(Verdict(), "train.py"),
            "==================================================\n"
            "train.py FAILED\n"
            "--------------------------------------------------\n"
            "Root cause (the first failure in the whole group):\n"
            "  host      : gpu-08 (node 1)\n"
            "  rank      : 9 (local_rank: 1)\n"
            "  exitcode  : 7 (pid: 4711)\n"
            "==================================================\n");
}

TEST(Report, ASignalIsNamed) {
  v1::Verdict verdict = Verdict();
  verdict.mutable_root_cause()->set_signal(11);
  EXPECT_NE(FailureReport(verdict, "x").find("signal    : 11 (SIGSEGV) (pid: 4711)"), std::string::npos);
}

TEST(Report, TheErrorTextIsIndentedLineByLine) {
  v1::Verdict verdict = Verdict();
  verdict.mutable_root_cause()->set_error_text("one\ntwo");
  EXPECT_NE(FailureReport(verdict, "x").find("  error     : one\n              two\n"), std::string::npos);
}

TEST(Report, ThereIsNoneWithoutAFailedWorker) {
  v1::Verdict lost;
  lost.set_exit_code(69);
  EXPECT_EQ(FailureReport(lost, "x"), "");
  v1::Verdict good = Verdict();
  good.set_exit_code(0);
  EXPECT_EQ(FailureReport(good, "x"), "");
}

}  // namespace
}  // namespace muster::host
