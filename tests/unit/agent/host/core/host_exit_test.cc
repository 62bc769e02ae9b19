#include "agent/host/core/host_exit.h"

#include <gtest/gtest.h>

#include <csignal>

#include "base/exit_codes.h"

namespace muster::host {
namespace {

constexpr int kRetryable = 123;
constexpr absl::Duration kNano = absl::Nanoseconds(1);
const BootTime kNow = FromBootNanos(1'000'000'000'000);

Finish FinishOf(const v1::Exit& exit, const v1::Leave* leave = nullptr, int retryable = kRetryable) {
  HostExit host_exit("h0", retryable);
  host_exit.Decide(exit);
  return host_exit.MakeFinish(leave, v1::Round());
}

v1::Exit Lingering(absl::Duration linger) {
  v1::Exit exit = MusterExit(0, "all done");
  exit.set_linger_ms(absl::ToInt64Milliseconds(linger));
  return exit;
}

TEST(HostExitTest, TheFirstDecisionCounts) {
  HostExit exit("h0", 0);
  EXPECT_FALSE(exit.decided());
  EXPECT_TRUE(exit.Decide(MusterExit(kExitFault, "a fault")));
  EXPECT_FALSE(exit.Decide(MusterExit(0, "all done")));
  EXPECT_EQ(exit.MakeFinish(nullptr, v1::Round()).exit_code, kExitFault);
}

TEST(HostExitTest, AnAttachedAgentHasATimeLimit) {
  HostExit exit("h0", 0);
  exit.Decide(MusterExit(0, "all done"));
  EXPECT_TRUE(exit.Flush(kNow));
  EXPECT_FALSE(exit.Flush(kNow + absl::Seconds(1)));
  EXPECT_TRUE(exit.Lingers(kNow + kLeaveReportLimit - kNano, std::nullopt));
  EXPECT_FALSE(exit.Lingers(kNow + kLeaveReportLimit, std::nullopt));
}

TEST(HostExitTest, ALingeringHostWaitsFromTheAgentsEnd) {
  HostExit exit("h0", 0);
  exit.Decide(Lingering(absl::Milliseconds(250)));
  exit.Flush(kNow);
  const BootTime gone = kNow + absl::Milliseconds(10);
  EXPECT_TRUE(exit.Lingers(gone + absl::Milliseconds(250) - kNano, gone));
  EXPECT_FALSE(exit.Lingers(gone + absl::Milliseconds(250), gone));
}

TEST(HostExitTest, ThePlatformIsAskedToRetryWithoutAFault) {
  EXPECT_EQ(FinishOf(MusterExit(kExitLeft, "left")).exit_code, kRetryable);
  EXPECT_EQ(FinishOf(MusterExit(kExitUnavailable, "lost")).exit_code, kRetryable);
  EXPECT_EQ(FinishOf(MusterExit(kExitLeft, "left")).reason,
            "left (75, reported as 123 so that the platform retries the job)");
  EXPECT_EQ(FinishOf(MusterExit(kExitFault, "a fault")).exit_code, kExitFault);
  EXPECT_EQ(FinishOf(MusterExit(kExitLeft, "left"), nullptr, 0).exit_code, kExitLeft);
}

TEST(HostExitTest, AWorkersExitCodeIsNeverReplaced) {
  v1::Exit exit = MusterExit(kExitLeft, "the worker exited with 75");
  exit.set_origin("worker");
  EXPECT_EQ(FinishOf(exit).exit_code, kExitLeft);
}

TEST(HostExitTest, ACancelledHostEndsBySigint) {
  v1::Leave leave;
  EXPECT_EQ(FinishOf(MusterExit(kExitCancelled, "cancelled"), &leave).signal, 0) << "another node was cancelled";
  leave.set_cancel(true);
  EXPECT_EQ(FinishOf(MusterExit(kExitCancelled, "cancelled"), &leave).signal, SIGINT);
  EXPECT_EQ(FinishOf(MusterExit(kExitFault, "a fault"), &leave).signal, 0);
}

TEST(HostExitTest, TheLastEffectCarriesTheVerdict) {
  v1::Exit exit = MusterExit(0, "all done");
  EXPECT_FALSE(FinishOf(exit).verdict);
  exit.mutable_verdict()->set_reason("all workers succeeded");
  EXPECT_EQ(FinishOf(exit).verdict->reason(), "all workers succeeded");
  const v1::Leave leave;
  EXPECT_FALSE(FinishOf(exit).asked_to_leave);
  EXPECT_TRUE(FinishOf(exit, &leave).asked_to_leave);
}

// ---- the last command

v1::Exit Verdict(int code, const std::string& closing_host) {
  v1::Exit exit = MusterExit(code, "over");
  exit.mutable_verdict()->set_exit_code(code);
  exit.mutable_verdict()->set_closing_host(closing_host);
  return exit;
}

TEST(LastCommandTest, TheNodeThatTheVerdictNamesRunsIt) {
  EXPECT_EQ(FinishOf(Verdict(0, "h0")).last_command, LastCommand::kOnSuccess);
  EXPECT_EQ(FinishOf(Verdict(7, "h0")).last_command, LastCommand::kOnFailure);
  EXPECT_EQ(FinishOf(Verdict(0, "h1")).last_command, LastCommand::kNone);
  EXPECT_EQ(FinishOf(Verdict(7, "h1")).last_command, LastCommand::kNone);
}

TEST(HostExitTest, OneNodeTellsAllIfTheVerdictNamesOne) {
  v1::Exit exit = MusterExit(1, "a worker failed");
  EXPECT_TRUE(FinishOf(exit).tells_all) << "without a verdict";
  exit.mutable_verdict()->set_exit_code(1);
  EXPECT_TRUE(FinishOf(exit).tells_all) << "no node is known";
  exit.mutable_verdict()->set_closing_host("h0");
  EXPECT_TRUE(FinishOf(exit).tells_all);
  exit.mutable_verdict()->set_closing_host("h1");
  EXPECT_FALSE(FinishOf(exit).tells_all);
  exit.set_tells_all(true);
  EXPECT_TRUE(FinishOf(exit).tells_all) << "it has served the coordinator, or is alone";
  EXPECT_EQ(FinishOf(exit).last_command, LastCommand::kNone);
}

TEST(LastCommandTest, WithoutAVerdictNobodyKnowsHowTheJobEnded) {
  EXPECT_EQ(FinishOf(MusterExit(kExitUnavailable, "lost")).last_command, LastCommand::kNone);
}

TEST(LastCommandTest, ANodeThatLeftSpeaksForItselfAlone) {
  v1::Exit exit = Verdict(0, "h0");
  exit.set_exit_code(kExitLeft);
  EXPECT_EQ(FinishOf(exit).last_command, LastCommand::kNone);
}

TEST(LastCommandTest, ThePersonWhoCancelsKnows) {
  EXPECT_EQ(FinishOf(Verdict(kExitCancelled, "h0")).last_command, LastCommand::kNone);
}

TEST(LastCommandTest, ARetryableExitCodeIsAFailureToo) {
  EXPECT_EQ(FinishOf(Verdict(kExitUnavailable, "h0")).last_command, LastCommand::kOnFailure);
}

}  // namespace
}  // namespace muster::host
