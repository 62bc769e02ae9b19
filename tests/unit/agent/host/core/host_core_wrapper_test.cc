// Workers that are a wrapper, such as a shell around the training: the wrapper ends first, and the training has
// the rest of the grace.
#include <csignal>

#include "tests/unit/agent/host/core/host_core_fixture.h"

namespace muster::host {
namespace {

class WrapperTest : public HostCoreTest {
 protected:
  static Ending ByOurs(bool rest_lives, int signal = SIGTERM) {
    Ending ending = Ended(true, signal);
    ending.rest_lives = rest_lives;
    return ending;
  }
  void WrapperEnds(int local_rank) { core_.OnExit(now_, local_rank, ByOurs(true), &effects_); }
  void Leave() { core_.OnSignal(now_, SIGTERM, &effects_); }
};

TEST_F(WrapperTest, TheRestIsSparedFromTheFirstSignalOn) {
  Run(1);
  EXPECT_FALSE(core_.SparesRest()) << "the worker failed or finished by itself";
  Leave();
  EXPECT_TRUE(core_.SparesRest());
}

TEST_F(WrapperTest, NothingIsSparedOnceTheGraceIsOver) {
  Run(1);
  Leave();
  Pass(absl::Seconds(9));
  EXPECT_EQ(Took<Sweep>().size(), 1u);
  EXPECT_FALSE(core_.SparesRest());
}

TEST_F(WrapperTest, NothingIsSweptWhileTheTrainingFinishes) {
  Run(1);
  Leave();
  WrapperEnds(0);
  WrapperEnds(1);
  Pass(absl::Seconds(7));
  EXPECT_TRUE(Took<Sweep>().empty());
  core_.OnRestEnded(now_, 0, &effects_);
  EXPECT_TRUE(Took<Sweep>().empty()) << "the other worker is still saving";
  core_.OnRestEnded(now_, 1, &effects_);
  EXPECT_EQ(Took<Sweep>().size(), 1u);
  Swept();
  EXPECT_EQ(core_.phase(), v1::HOST_PHASE_IDLE);
}

// What the first process wrote last is awaited while the rest holds its standard error.
TEST_F(WrapperTest, TheRestMayEndBeforeTheExitIsReported) {
  Run(1);
  Leave();
  core_.OnRestEnded(now_, 0, &effects_);
  core_.OnRestEnded(now_, 1, &effects_);
  WrapperEnds(0);
  EXPECT_TRUE(Took<Sweep>().empty());
  WrapperEnds(1);
  EXPECT_EQ(Took<Sweep>().size(), 1u);
  Swept();
  EXPECT_EQ(core_.phase(), v1::HOST_PHASE_IDLE);
}

TEST_F(WrapperTest, TheSweepMayComeBeforeTheExitIsReported) {
  Run(1);
  Leave();
  WrapperEnds(0);
  Pass(absl::Seconds(9));
  ASSERT_EQ(Took<Sweep>().size(), 1u);
  core_.OnSwept(now_, "", &effects_);
  WrapperEnds(1);
  EXPECT_EQ(Took<Sweep>().size(), 2u);
  Swept();
  EXPECT_EQ(core_.phase(), v1::HOST_PHASE_IDLE);
}

TEST_F(WrapperTest, ALongFinishIsLoggedOnce) {
  Run(1);
  Leave();
  Forget();
  WrapperEnds(0);
  Pass(kSayFinishing - kTick);
  EXPECT_TRUE(Took<Note>().empty());
  Pass(absl::Seconds(2));
  ASSERT_EQ(Took<Note>().size(), 1u);
  EXPECT_EQ(
      Took<Note>()[0].text,
      "the first process of rank 2 has ended; processes that it started handle SIGTERM and have 7s to finish");
}

TEST_F(WrapperTest, TheGraceIsSharedAndNotRestarted) {
  Run(1);
  Leave();
  Pass(absl::Seconds(7));
  WrapperEnds(0);
  WrapperEnds(1);
  Forget();
  Pass(absl::Seconds(1));
  EXPECT_EQ(Took<Sweep>().size(), 1u);
  Swept();
  EXPECT_EQ(core_.phase(), v1::HOST_PHASE_IDLE) << "the sweep has ended the spared processes";
}

// If this host dies, its agent ends the sessions of the workers that the host has reported.
TEST_F(WrapperTest, TheSessionIsReportedWhileItLives) {
  Run(1);
  Leave();
  WrapperEnds(0);
  core_.OnExit(now_, 1, Ended(true, SIGTERM), &effects_);
  Pass(absl::Seconds(1));
  ASSERT_EQ(LastStatus().workers_size(), 1);
  EXPECT_EQ(LastStatus().workers(0).pid(), 100);
  EXPECT_EQ(LastStatus().phase(), v1::HOST_PHASE_STOPPING);
}

TEST_F(WrapperTest, ASecondSignalEndsTheRestNow) {
  Run(1);
  Leave();
  WrapperEnds(0);
  WrapperEnds(1);
  core_.OnSignal(now_ + kOneSignal, SIGTERM, &effects_);
  EXPECT_EQ(Took<Sweep>().size(), 1u);
}

TEST_F(WrapperTest, TheLeaseIsNotOutlived) {
  Run(1);
  v1::HostDirective stop = Directive();
  stop.mutable_stop()->set_grace_ms(absl::ToInt64Milliseconds(kGrace));
  Give(stop);
  WrapperEnds(0);
  WrapperEnds(1);
  Pass(kLease - kLease / 10, true, false);
  EXPECT_EQ(Took<Sweep>().size(), 1u);
}

TEST_F(WrapperTest, AFailureKeepsTheGraceOfPeerWrappers) {
  Run(1);
  Exit(0, 7);
  EXPECT_EQ(Took<StopWorkers>()[0].signal, SIGTERM);
  WrapperEnds(1);
  Pass(kGrace - absl::Seconds(1));
  EXPECT_TRUE(Took<Sweep>().empty());
  core_.OnRestEnded(now_, 1, &effects_);
  Swept();
  EXPECT_EQ(LastStatus().outcome(), v1::OUTCOME_FAILED);
  EXPECT_EQ(LastStatus().failure().exit_code(), 7);
}

TEST_F(WrapperTest, MessagesFromAnEarlierRoundsRestAreDropped) {
  Run(1);
  core_.OnRestEnded(now_, 0, &effects_);
  EXPECT_TRUE(Took<Sweep>().empty());
  Pass(kTick);
  EXPECT_EQ(LastStatus().workers_size(), 2);
}

}  // namespace
}  // namespace muster::host
