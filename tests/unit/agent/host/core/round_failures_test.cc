// Which failure is the cause. host_core_failures_test.cc shows what the host does about it.
#include "agent/host/core/round_failures.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>

#include "base/wire/failure.h"
#include "base/wire/other_failures.h"
#include "tests/unit/effects.h"

namespace muster::host {
namespace {

const BootTime kStart = FromBootNanos(1'000'000'000'000);
const absl::Time kWallAtBoot = absl::FromUnixSeconds(1'700'000'000);

class RoundFailuresTest : public ::testing::Test {
 protected:
  explicit RoundFailuresTest(const std::string& option = "")
      : failures_(Round(), kStart, {.hostname = "n0", .local_rank_option = option, .python = "/venv/bin/python"}) {
  }

  static v1::Round Round() {
    v1::Round round;
    round.mutable_id()->set_number(3);
    round.set_first_rank(4);
    round.set_node_rank(1);
    return round;
  }
  static Ending Code(int code) { return Ending{.number = code}; }
  // An ending whose error file names a second of the wall clock, counted from the round's start.
  static Ending FailedAt(int second) {
    Ending ending = Code(1);
    ending.failed_at_s = absl::ToUnixSeconds(kWallAtBoot + (kStart - absl::UnixEpoch())) + second;
    return ending;
  }
  static constexpr char kPeerGone[] = "RuntimeError: [gloo/transport/tcp/pair.cc:553] Connection closed by peer";
  static Ending Echo(Ending ending) {
    ending.last_words = kPeerGone;
    return ending;
  }
  static Ending Killed(int signal) { return Ending{.by_signal = true, .number = signal}; }
  // It wrote a traceback then, counted from the round's start.
  static Ending Raised(Ending ending, absl::Duration at) {
    ending.last_words =
        "[rank3]: Traceback (most recent call last):\n[rank3]:   File \"t.py\", line 3\n[rank3]: ValueError: bad "
        "data";
    ending.spoke_at = kWallAtBoot + (kStart + at - absl::UnixEpoch());
    return ending;
  }
  int CauseRank() const { return failures_.cause() ? failures_.cause()->local_rank() : -1; }
  bool End(int local_rank, absl::Duration after, const Ending& ending) {
    const WorkerEnd end{
        .at = kStart + after, .wall_at_boot = kWallAtBoot, .local_rank = local_rank, .pid = 71, .ending = ending};
    return failures_.OnEnd(end, stopping_since_, &effects_);
  }
  v1::HostStatus Reported() const {
    v1::HostStatus status;
    failures_.Describe(&status);
    return status;
  }
  absl::Duration CauseAt() const { return FromBootNanos(Reported().failure_boot_ns()) - kStart; }

  RoundFailures failures_;
  std::optional<BootTime> stopping_since_;
  Effects effects_;
};

TEST_F(RoundFailuresTest, SuccessIsNoFailure) {
  EXPECT_FALSE(End(0, absl::Seconds(1), Code(0)));
  EXPECT_FALSE(failures_.cause());
  EXPECT_TRUE(effects_.empty());
}

TEST_F(RoundFailuresTest, WhyAHungWorkerWasEndedIsSaidOnce) {
  Ending ending{.by_signal = true, .number = SIGABRT, .error_text = "no worker has shown a sign of life for 5m"};
  ending.hung = Ending::Hung::kSuspect;
  EXPECT_TRUE(End(1, absl::Seconds(3), ending));
  EXPECT_EQ(AllOf<Note>(effects_).back().text,
            "worker rank 5 (pid 71) hangs, and was ended: no worker has shown a sign of life for 5m");
}

TEST_F(RoundFailuresTest, TheFirstFailureIsTheCause) {
  EXPECT_TRUE(End(1, absl::Seconds(3), Code(7)));
  ASSERT_TRUE(failures_.cause());
  EXPECT_EQ(failures_.cause()->rank(), 5);
  EXPECT_EQ(failures_.cause()->exit_code(), 7);
  EXPECT_EQ(failures_.cause()->host(), "n0");
  EXPECT_EQ(failures_.cause()->pid(), 71);
  EXPECT_EQ(CauseAt(), absl::Seconds(3));
  const Note note = AllOf<Note>(effects_).back();
  EXPECT_EQ(note.text, "worker rank 5 (pid 71) exited with code 7");
  EXPECT_EQ(note.subject.rank, 5);
}

TEST_F(RoundFailuresTest, TheProcessThatHasRankZerosPortIsNamed) {
  v1::Round round = Round();
  round.mutable_master()->set_port(29'555);
  failures_ = RoundFailures(round, kStart, {});
  Ending ending = Code(1);
  ending.port_taken_by = "python3 (pid 71)";
  EXPECT_TRUE(End(0, absl::Seconds(3), ending));
  EXPECT_TRUE(failures_.cause()->port_taken());
  EXPECT_EQ(
      failures_.cause()->hint(),
      "python3 (pid 71) listens on port 29555, which this round had as MASTER_PORT; stop it, or choose other "
      "ports (--worker-port)");
}

TEST_F(RoundFailuresTest, AnEchoIsSaidToBeProvisionalWhereThereAreOtherRanks) {
  for (const int workers : {1, 8}) {
    v1::Round round = Round();
    round.set_world_size(workers);
    failures_ = RoundFailures(round, kStart, {});
    EXPECT_FALSE(End(0, absl::Seconds(3), Echo(Code(1))));
    failures_.TakeEchoes(&effects_);
    const std::string says =
        workers > 1 ? "; its output reports a lost connection: another rank's failure may be the cause" : "";
    EXPECT_EQ(AllOf<Note>(effects_).back().text, "worker rank 4 (pid 71) exited with code 1" + says);
  }
}

TEST_F(RoundFailuresTest, FurtherFailuresAreListedAfterOurSignal) {
  EXPECT_TRUE(End(0, absl::Seconds(3), Code(7)));
  stopping_since_ = kStart + absl::Seconds(3);
  Ending killed{.by_signal = true, .number = SIGTERM};
  killed.error_text = std::string(2 * kMaxBriefText, 'x');
  for (int i = 1; i <= kMaxOtherFailures + 2; ++i) EXPECT_FALSE(End(i, absl::Seconds(4), killed));
  const v1::Failure reported = Reported().failure();
  EXPECT_EQ(reported.exit_code(), 7);
  EXPECT_FALSE(reported.after_our_signal());
  ASSERT_EQ(reported.others_size(), kMaxOtherFailures);
  EXPECT_EQ(reported.more_others(), 2);
  EXPECT_TRUE(reported.others(0).after_our_signal());
  EXPECT_EQ(reported.others(0).error_text().size(), kMaxBriefText);
}

// The round failed on another node, or was stopped for another reason.
TEST_F(RoundFailuresTest, WithoutACauseTheFirstOneThatWasStoppedIsReported) {
  stopping_since_ = kStart + absl::Seconds(3);
  EXPECT_FALSE(Reported().has_failure());
  EXPECT_FALSE(End(2, absl::Seconds(4), Ending{.by_signal = true, .number = SIGTERM}));
  EXPECT_FALSE(End(0, absl::Seconds(5), Code(0)));
  EXPECT_FALSE(End(1, absl::Seconds(6), Code(1)));
  EXPECT_FALSE(failures_.cause());
  const v1::Failure reported = Reported().failure();
  EXPECT_EQ(reported.local_rank(), 2);
  EXPECT_TRUE(reported.after_our_signal());
  EXPECT_EQ(CauseAt(), absl::Seconds(4));
  ASSERT_EQ(reported.others_size(), 1);
  EXPECT_EQ(reported.others(0).local_rank(), 1);
  EXPECT_TRUE(reported.others(0).after_our_signal());
}

TEST_F(RoundFailuresTest, AnEarlierReportTakesTheCause) {
  EXPECT_TRUE(End(0, absl::Seconds(10), Code(7)));
  stopping_since_ = kStart + absl::Seconds(10);
  EXPECT_FALSE(End(1, absl::Seconds(12), Code(8)));
  EXPECT_FALSE(End(2, absl::Seconds(13), FailedAt(5)));
  EXPECT_EQ(failures_.cause()->local_rank(), 2);
  EXPECT_EQ(CauseAt(), absl::Seconds(6)) << "the end of the second that it named";
  const v1::Failure reported = Reported().failure();
  ASSERT_EQ(reported.others_size(), 2) << "the former cause is among the others";
  EXPECT_EQ(reported.others(1).local_rank(), 0);
  EXPECT_FALSE(reported.others(1).after_our_signal());
  EXPECT_EQ(reported.others(1).others_size(), 0);
}

TEST_F(RoundFailuresTest, AReportOfAWorkerThatWeKilledDoesNot) {
  EXPECT_TRUE(End(0, absl::Seconds(10), Code(7)));
  stopping_since_ = kStart + absl::Seconds(10);
  Ending killed = FailedAt(5);
  killed.by_signal = true;
  EXPECT_FALSE(End(1, absl::Seconds(12), killed));
  EXPECT_EQ(failures_.cause()->local_rank(), 0);
}

TEST_F(RoundFailuresTest, AnEchoWaitsForItsCause) {
  EXPECT_FALSE(End(0, absl::Seconds(10), Echo(Killed(SIGABRT))));
  EXPECT_FALSE(End(1, absl::Seconds(11), Echo(Code(1))));
  EXPECT_EQ(failures_.AwaitsCauseUntil(), kStart + absl::Seconds(10) + kEchoPatience);
  EXPECT_FALSE(failures_.cause());
  EXPECT_TRUE(End(3, absl::Seconds(11), Code(2)));
  EXPECT_EQ(CauseRank(), 3);
  EXPECT_FALSE(failures_.AwaitsCauseUntil());
  const v1::Failure reported = Reported().failure();
  ASSERT_EQ(reported.others_size(), 2);
  EXPECT_EQ(reported.others(0).signal(), SIGABRT);
  EXPECT_FALSE(reported.others(0).after_our_signal()) << "it failed by itself";
}

TEST_F(RoundFailuresTest, AnEchoWithoutACauseIsTheCause) {
  EXPECT_FALSE(End(1, absl::Seconds(10), Echo(Code(1))));
  EXPECT_FALSE(End(0, absl::Seconds(11), Echo(Code(1))));
  failures_.TakeEchoes(&effects_);
  EXPECT_EQ(CauseRank(), 1);
  EXPECT_EQ(CauseAt(), absl::Seconds(10));
  EXPECT_EQ(Reported().failure().others_size(), 1);
}

TEST_F(RoundFailuresTest, NoPeerMakesAWorkerCrashOrHang) {
  Ending hung = Echo(Killed(SIGABRT));
  hung.hung = Ending::Hung::kSuspect;
  EXPECT_TRUE(End(0, absl::Seconds(10), hung));
  EXPECT_TRUE(End(1, absl::Seconds(10), Echo(Killed(SIGSEGV))));
}

// The error files of its peers may even be older: they fail at once when its sockets close.
TEST_F(RoundFailuresTest, AnOlderEchoDoesNotTakeTheCause) {
  EXPECT_TRUE(End(3, absl::Seconds(10), FailedAt(9)));
  stopping_since_ = kStart + absl::Seconds(10);
  EXPECT_FALSE(End(0, absl::Seconds(11), Echo(FailedAt(5))));
  EXPECT_EQ(CauseRank(), 3);
}

TEST_F(RoundFailuresTest, AnExceptionBeforeTheStopBeatsAnEcho) {
  EXPECT_FALSE(End(0, absl::Seconds(10), Echo(Code(1))));
  failures_.TakeEchoes(&effects_);
  stopping_since_ = kStart + absl::Seconds(12);
  EXPECT_FALSE(End(3, absl::Seconds(13), Raised(Killed(SIGTERM), absl::Seconds(9))));
  EXPECT_EQ(CauseRank(), 3);
  EXPECT_EQ(CauseAt(), absl::Seconds(9));
  EXPECT_EQ(failures_.cause()->exit_code(), 1) << "the signal is no part of the cause";
  EXPECT_NE(failures_.cause()->hint(), "");
}

TEST_F(RoundFailuresTest, AReportBeforeTheStopBeatsAnEcho) {
  EXPECT_FALSE(End(0, absl::Seconds(10), Echo(Code(1))));
  failures_.TakeEchoes(&effects_);
  stopping_since_ = kStart + absl::Seconds(12);
  Ending killed = FailedAt(10);
  killed.by_signal = true;
  killed.number = SIGTERM;
  EXPECT_FALSE(End(3, absl::Seconds(13), killed));
  EXPECT_EQ(CauseRank(), 3);
}

TEST_F(RoundFailuresTest, AnExceptionThatIsNoEndIsNoCause) {
  EXPECT_FALSE(End(0, absl::Seconds(20), Echo(Code(1))));
  failures_.TakeEchoes(&effects_);
  stopping_since_ = kStart + absl::Seconds(22);
  EXPECT_FALSE(End(1, absl::Seconds(23), Raised(Killed(SIGTERM), absl::Seconds(9)))) << "it went on for 11 s";
  EXPECT_FALSE(End(2, absl::Seconds(23), Raised(Killed(SIGTERM), absl::Seconds(22)))) << "our signal raised it";
  EXPECT_FALSE(End(3, absl::Seconds(23), Killed(SIGTERM)));
  EXPECT_EQ(CauseRank(), 0);
}

TEST_F(RoundFailuresTest, AnExceptionThatWasHandledIsNoCause) {
  EXPECT_FALSE(End(0, absl::Seconds(10), Echo(Code(1))));
  failures_.TakeEchoes(&effects_);
  stopping_since_ = kStart + absl::Seconds(12);
  Ending healthy = Killed(SIGTERM);
  healthy.last_words =
      "ERROR:root:sample skipped\nTraceback (most recent call last):\n  File \"t.py\", line 3, in load\n"
      "    int(text)\nValueError: bad data\nstep 5";
  healthy.spoke_at = kWallAtBoot + (kStart + absl::Seconds(11) - absl::UnixEpoch());
  EXPECT_FALSE(End(1, absl::Seconds(13), healthy));
  EXPECT_EQ(CauseRank(), 0);
}

TEST_F(RoundFailuresTest, AnEndAtTheMomentOfTheStopIsByItsSignal) {
  EXPECT_FALSE(End(0, absl::Seconds(10), Echo(Code(1))));
  failures_.TakeEchoes(&effects_);
  stopping_since_ = kStart + absl::Seconds(12);
  EXPECT_FALSE(End(3, absl::Seconds(12), Raised(Killed(SIGTERM), absl::Seconds(9))));
  EXPECT_EQ(CauseRank(), 3);
  EXPECT_EQ(failures_.cause()->exit_code(), 1);
}

// Another process holds its standard error, so what it wrote is awaited.
TEST_F(RoundFailuresTest, AFailureReportedLateKeepsItsPlace) {
  EXPECT_TRUE(End(1, absl::Milliseconds(10'060), Killed(SIGSEGV)));
  stopping_since_ = kStart + absl::Milliseconds(10'060);
  EXPECT_FALSE(End(0, absl::Seconds(10), Code(1)));
  EXPECT_EQ(CauseRank(), 0);
  EXPECT_EQ(CauseAt(), absl::Seconds(10));
  const v1::Failure reported = Reported().failure();
  EXPECT_FALSE(reported.after_our_signal());
  ASSERT_EQ(reported.others_size(), 1);
  EXPECT_EQ(reported.others(0).signal(), SIGSEGV);
}

TEST_F(RoundFailuresTest, ALateReportOfALaterEndIsNoCause) {
  EXPECT_TRUE(End(1, absl::Milliseconds(9'960), Killed(SIGSEGV)));
  stopping_since_ = kStart + absl::Milliseconds(10'060);
  EXPECT_FALSE(End(0, absl::Seconds(10), Code(1)));
  EXPECT_FALSE(End(2, absl::Milliseconds(9'900), Echo(Code(1))));
  EXPECT_EQ(CauseRank(), 1);
  const v1::Failure reported = Reported().failure();
  ASSERT_EQ(reported.others_size(), 2);
  for (const v1::Failure& other : reported.others()) {
    EXPECT_FALSE(other.after_our_signal()) << "it failed by itself";
  }
}

TEST_F(RoundFailuresTest, AnAbortReportedLateStaysAnAbort) {
  EXPECT_TRUE(End(1, absl::Milliseconds(10'060), Code(1)));
  stopping_since_ = kStart + absl::Milliseconds(10'060);
  EXPECT_FALSE(End(0, absl::Seconds(10), Killed(SIGABRT)));
  EXPECT_EQ(CauseRank(), 0);
  EXPECT_EQ(failures_.cause()->signal(), SIGABRT);
  EXPECT_EQ(failures_.cause()->hint(), "");
}

TEST_F(RoundFailuresTest, TheFirstEchoMayBeReportedLast) {
  EXPECT_FALSE(End(1, absl::Milliseconds(10'060), Echo(Code(1))));
  EXPECT_FALSE(End(0, absl::Seconds(10), Echo(Code(1))));
  EXPECT_EQ(failures_.AwaitsCauseUntil(), kStart + absl::Seconds(10) + kEchoPatience);
  failures_.TakeEchoes(&effects_);
  EXPECT_EQ(CauseRank(), 0);
}

TEST_F(RoundFailuresTest, WhoLeftAfterAnEchoIsNamedAsThat) {
  EXPECT_FALSE(End(0, absl::Seconds(10), Echo(Code(1))));
  EXPECT_FALSE(End(3, absl::Seconds(11), Code(0)));
  failures_.TakeEchoes(&effects_);
  failures_.AddHint();
  EXPECT_EQ(failures_.cause()->hint(),
            "rank 7 exited with code 0 soon after this failure; a process closes its connections before it ends");
}

TEST_F(RoundFailuresTest, WhoLeftBeforeAnEchoIsNamedAlone) {
  EXPECT_FALSE(End(2, absl::Seconds(9), Code(0)));
  EXPECT_FALSE(End(0, absl::Seconds(10), Echo(Code(1))));
  EXPECT_FALSE(End(3, absl::Seconds(11), Code(0)));
  failures_.TakeEchoes(&effects_);
  failures_.AddHint();
  EXPECT_EQ(failures_.cause()->hint(), "rank 6 exited with code 0 while this rank still ran");
}

TEST_F(RoundFailuresTest, WhoLeftEarlyIsNamedBesideAnEcho) {
  EXPECT_FALSE(End(3, absl::Seconds(9), Code(0)));
  EXPECT_FALSE(End(0, absl::Seconds(10), Echo(Code(1))));
  failures_.TakeEchoes(&effects_);
  failures_.AddHint();
  EXPECT_EQ(failures_.cause()->hint(), "rank 7 exited with code 0 while this rank still ran");
}

TEST_F(RoundFailuresTest, WhoLeftEarlyIsNoReasonForAnError) {
  EXPECT_FALSE(End(3, absl::Seconds(9), Code(0)));
  EXPECT_TRUE(End(0, absl::Seconds(10), Code(1)));
  failures_.AddHint();
  EXPECT_EQ(failures_.cause()->hint(), "");
}

TEST_F(RoundFailuresTest, DuringAStopOnlyAnEarlierReportIsAFailure) {
  stopping_since_ = kStart + absl::Seconds(10);
  EXPECT_FALSE(End(0, absl::Seconds(11), Code(1)));
  EXPECT_FALSE(End(1, absl::Seconds(12), FailedAt(10)));
  EXPECT_FALSE(failures_.cause()) << "it came after the stop";
  EXPECT_FALSE(End(2, absl::Seconds(13), FailedAt(5)));
  ASSERT_TRUE(failures_.cause());
  EXPECT_EQ(Reported().failure().local_rank(), 2);
  EXPECT_EQ(Reported().failure().others_size(), 2) << "those that came after the stop";
  EXPECT_EQ(
      AllOf<Note>(effects_).back().text,
      "worker rank 6 (pid 71) exited with code 1; it had failed 4s before this node began to stop its workers");
}

TEST_F(RoundFailuresTest, TheErrorFilesTimeIsMoreExact) {
  Ending ending = FailedAt(5);
  ending.reported_at = absl::FromUnixSeconds(*ending.failed_at_s) + absl::Milliseconds(300);
  EXPECT_TRUE(End(0, absl::Seconds(10), ending));
  EXPECT_EQ(CauseAt(), absl::Milliseconds(5300));
}

TEST_F(RoundFailuresTest, AClockOfAnotherMachineIsIgnored) {
  Ending ending = FailedAt(5);
  ending.reported_at = absl::FromUnixSeconds(*ending.failed_at_s) - absl::Seconds(1);
  EXPECT_TRUE(End(0, absl::Seconds(10), ending));
  EXPECT_EQ(CauseAt(), absl::Seconds(6));
}

TEST_F(RoundFailuresTest, NoFailurePrecedesItsRound) {
  EXPECT_TRUE(End(0, absl::Seconds(10), FailedAt(-100)));
  EXPECT_EQ(CauseAt(), absl::ZeroDuration());
}

TEST_F(RoundFailuresTest, TheCauseHasALastOutput) {
  failures_.OnLastOutput("nobody failed");
  EXPECT_FALSE(failures_.cause().has_value());
  EXPECT_TRUE(End(1, absl::Seconds(1), Code(7)));
  EXPECT_EQ(failures_.cause()->last_output(), "");
  failures_.OnLastOutput("why");
  EXPECT_EQ(failures_.cause()->last_output(), "why");
}

TEST_F(RoundFailuresTest, OnlyAWorkerWithoutInputGetsTheKeyboardHint) {
  for (const bool without_input : {true, false}) {
    failures_ = RoundFailures(Round(), kStart, {.hostname = "n0"});
    Ending ending = Code(1);
    ending.without_input = without_input;
    EXPECT_TRUE(End(1, absl::Seconds(1), ending));
    failures_.AddHint();
    failures_.OnLastOutput("bdb.BdbQuit");
    EXPECT_EQ(failures_.cause()->hint().find("--stdin 5") != std::string::npos, without_input);
  }
}

TEST_F(RoundFailuresTest, AUsageErrorGetsAHint) {
  EXPECT_TRUE(End(0, absl::Seconds(1), Code(2)));
  stopping_since_ = kStart;
  EXPECT_FALSE(End(1, absl::Seconds(1), Ending{.by_signal = true, .number = SIGTERM}));
  failures_.AddHint();
  EXPECT_THAT(failures_.cause()->hint(), testing::HasSubstr("add --pass-local-rank"));
}

class RoundFailuresUnderDeepSpeedTest : public RoundFailuresTest {
 protected:
  RoundFailuresUnderDeepSpeedTest() : RoundFailuresTest("local_rank") {}
};

TEST_F(RoundFailuresUnderDeepSpeedTest, AScriptThatDoesNotKnowTheOptionOfTheLineIsToldOfIt) {
  EXPECT_TRUE(End(0, absl::Seconds(1), Code(2)));
  failures_.AddHint();
  failures_.OnLastOutput("x.py: error: unrecognized arguments: --local_rank=0");
  EXPECT_THAT(failures_.cause()->hint(), testing::HasSubstr("does not know --local_rank"));
}

TEST_F(RoundFailuresTest, ArgparsesOwnWordsReplaceTheGuess) {
  EXPECT_TRUE(End(0, absl::Seconds(1), Code(2)));
  stopping_since_ = kStart;
  EXPECT_FALSE(End(1, absl::Seconds(1), Ending{.by_signal = true, .number = SIGTERM}));
  failures_.AddHint();
  failures_.OnLastOutput("x.py: error: unrecognized arguments: --local-rank=0");
  EXPECT_THAT(failures_.cause()->hint(), testing::HasSubstr("add --pass-local-rank"));
  failures_.OnLastOutput("x.py: error: the following arguments are required: --checkpoint");
  EXPECT_EQ(failures_.cause()->hint(), "");
}

TEST_F(RoundFailuresTest, AMissingModuleGetsTheNameOfThePython) {
  EXPECT_TRUE(End(0, absl::Seconds(1), Code(1)));
  failures_.OnLastOutput("ModuleNotFoundError: No module named 'torch'");
  EXPECT_THAT(failures_.cause()->hint(),
              testing::HasSubstr("the workers' Python is /venv/bin/python; if the module"));
}

TEST_F(RoundFailuresTest, AWorkerThatAcceptedTheArgumentsIsNoUsageError) {
  EXPECT_FALSE(End(1, absl::Seconds(1), Code(0)));
  EXPECT_TRUE(End(0, absl::Seconds(1), Code(2)));
  failures_.AddHint();
  EXPECT_EQ(failures_.cause()->hint(), "");
}

TEST_F(RoundFailuresTest, ALateExitCode2IsNoUsageError) {
  EXPECT_TRUE(End(0, kUsageErrorWithin + absl::Nanoseconds(1), Code(2)));
  failures_.AddHint();
  EXPECT_EQ(failures_.cause()->hint(), "");
}

class OwnOptionTest : public RoundFailuresTest {
 protected:
  OwnOptionTest() : RoundFailuresTest("local_rank") {}
};

TEST_F(OwnOptionTest, AnOptionThatTheUserNamedIsNotExplained) {
  EXPECT_TRUE(End(0, absl::Seconds(1), Code(2)));
  failures_.AddHint();
  EXPECT_EQ(failures_.cause()->hint(), "");
}

TEST_F(RoundFailuresTest, AWorkerThatWasDoneHasNotFailed) {
  Ending ending{.by_signal = true, .number = SIGSEGV};
  ending.done = true;
  EXPECT_FALSE(End(1, absl::Seconds(3), ending));
  EXPECT_FALSE(failures_.cause());
  EXPECT_FALSE(Reported().has_failure());
  EXPECT_EQ(
      AllOf<Note>(effects_).at(0).text,
      "worker rank 5 had finished (it has created MUSTER_DONE_FILE), and then was killed (SIGSEGV); this counts "
      "as success");
}

TEST_F(RoundFailuresTest, ADoneWorkerThatIsStoppedIsNotMentioned) {
  ASSERT_TRUE(End(0, absl::Seconds(1), Code(7)));
  stopping_since_ = kStart + absl::Seconds(1);
  effects_.clear();
  Ending ending{.by_signal = true, .number = SIGTERM};
  ending.done = true;
  EXPECT_FALSE(End(1, absl::Seconds(3), ending));
  EXPECT_TRUE(effects_.empty());
  EXPECT_EQ(Reported().failure().others_size(), 0);
}

}  // namespace
}  // namespace muster::host
