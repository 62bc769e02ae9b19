// What the agent reports to the coordinator, and when.
#include <gtest/gtest.h>

#include <functional>

#include "agent/process/core/agent_core.h"
#include "base/wire/ids.h"
#include "tests/unit/agent/process/core/agent_core_fixture.h"

namespace muster::agent {
namespace {

class AgentStatusTest : public AgentCoreTest {
 protected:
  // An agent whose host has this configuration in addition to the fixture's.
  v1::AgentStatus FirstStatusWith(const std::function<void(v1::HostStatus*)>& change,
                                  const std::string& local_address = "10.0.0.2") {
    AgentCore core(8);
    v1::HostStatus first = host_;
    *first.mutable_config() = core_.config();
    change(&first);
    Effects effects;
    core.OnHostStatus(now_, first, &effects);
    core.OnConnected(now_, local_address, &effects);
    return AllOf<SendToCoordinator>(effects).back().status;
  }
  size_t Statuses() { return Took<SendToCoordinator>().size(); }
  void RunARound() {
    Connected();
    Give(Run(1, 1));
    HostApplies();
    host_.set_phase(v1::HOST_PHASE_RUNNING);
    host_.add_workers()->set_pid(123);
    Host();
    Pass(2 * kTick);
    Forget();
  }
  void EndHost() {
    core_.OnHostClosed(now_, &effects_);
    core_.OnHostSwept(now_, &effects_);
  }
};

TEST_F(AgentStatusTest, DescribesTheNode) {
  const v1::AgentStatus status = FirstStatusWith([](v1::HostStatus* host) {
    v1::NodeConfig* config = host->mutable_config();
    config->set_version("1.2");
    config->set_min_nodes(2);
    config->set_max_nodes(5);
    config->set_slots(8);
    config->set_role_name("learner");
    config->set_watches_progress(true);
    host->set_trouble("a GPU is gone");
    host->set_preparing("its preflight runs");
    host->mutable_leave()->set_signal(2);
    host->mutable_leave()->set_cancel(true);
  });
  EXPECT_EQ(status.protocol(), kProtocol);
  EXPECT_EQ(status.run_id(), "job");
  EXPECT_EQ(status.host_id(), "h");
  EXPECT_EQ(status.id().agent_number(), 1u);
  EXPECT_EQ(status.id().seq(), 1u);
  EXPECT_EQ(status.hostname(), "n1");
  EXPECT_EQ(status.version(), "1.2");
  EXPECT_EQ(status.whereabouts().process(), "this");
  EXPECT_EQ(status.role(), v1::ROLE_TRAINER);
  EXPECT_EQ(status.min_nodes(), 2);
  EXPECT_EQ(status.max_nodes(), 5);
  EXPECT_EQ(status.slots(), 8);
  EXPECT_EQ(status.role_name(), "learner");
  EXPECT_TRUE(status.watches_progress());
  EXPECT_EQ(status.trouble(), "a GPU is gone");
  EXPECT_EQ(status.preparing(), "its preflight runs");
  EXPECT_TRUE(status.cancelled());
  EXPECT_FALSE(status.has_cannot_start());
  EXPECT_EQ(status.live_workers(), 0);
}

TEST_F(AgentStatusTest, ANodeWithoutAPlaceReportsNone) {
  EXPECT_FALSE(FirstStatusWith([](v1::HostStatus* host) { host->mutable_config()->clear_place(); }).has_place());
}

TEST_F(AgentStatusTest, TheOffersAddressIsTheUsersOrTheOneThatReachesTheCoordinator) {
  const auto address = [this](const std::string& given, bool single, bool loopback, const std::string& local) {
    return FirstStatusWith(
               [&](v1::HostStatus* host) {
                 host->mutable_config()->set_local_addr(given);
                 host->mutable_config()->set_single_node(single);
                 host->mutable_config()->set_loopback_only(loopback);
               },
               local)
        .offer()
        .host();
  };
  EXPECT_EQ(address("192.168.0.9", false, false, "10.0.0.2"), "192.168.0.9");
  EXPECT_EQ(address("", false, false, "10.0.0.2"), "10.0.0.2");
  EXPECT_EQ(address("", false, false, ""), "");
  EXPECT_EQ(address("", true, false, ""), "127.0.0.1");
  EXPECT_EQ(address("", false, true, ""), "127.0.0.1");
}

TEST_F(AgentStatusTest, WithoutAPortThereIsNoOffer) {
  EXPECT_FALSE(FirstStatusWith([](v1::HostStatus* host) { host->set_offer_port(0); }).has_offer());
}

TEST_F(AgentStatusTest, ADeadHostHasNoWorkers) {
  Connected();
  host_.set_phase(v1::HOST_PHASE_RUNNING);
  host_.add_workers()->set_pid(123);
  Host();
  EXPECT_EQ(LastStatus().live_workers(), 1);
  core_.OnHostClosed(now_, &effects_);
  now_ += absl::Milliseconds(300);
  core_.OnHostSwept(now_, &effects_);
  EXPECT_EQ(LastStatus().live_workers(), 0);
  EXPECT_EQ(LastStatus().host_gone_ms(), 300);
}

// The whole machine or job was suspended: this process stood still, too.
TEST_F(AgentStatusTest, ALeaseThatEndsInASuspensionIsNamed) {
  RunARound();
  now_ += kLease;
  core_.OnTick(now_, &effects_);  // before it hears of the host's end
  EndHost();
  Connected();  // the silence has ended the session
  EXPECT_EQ(LastStatus().how_host_ended(), "its lease ended while its machine or job was suspended");
  const auto says = [](const char* text) { return testing::Contains(testing::Field(&Note::text, text)); };
  EXPECT_THAT(Took<Note>(), says("the lease ended while this machine or job was suspended (--lease 10s)"));
  EXPECT_THAT(Took<Note>(), says("muster (pid 50) was ended by the kernel; cleaning up its workers"));
  Pass(kSuspendedGoneLimit, false);
  EXPECT_TRUE(core_.finished()) << "a coordinator that starts later need not learn of it";
}

TEST_F(AgentStatusTest, TheProgressFilesAgeIsReportedOnceItWasTouched) {
  RunARound();
  *host_.mutable_started() = host_.memory().last().id();
  host_.set_quiet_ms(1'000);
  Host();
  Connected();
  EXPECT_TRUE(LastStatus().has_quiet_ms());
  EXPECT_FALSE(LastStatus().has_progress_file_ms());
  host_.set_progress_boot_ns(ToBootNanos(now_ - absl::Seconds(3)));
  Host();
  Connected();
  EXPECT_EQ(LastStatus().progress_file_ms(), 3'000);
}

TEST_F(AgentStatusTest, AShorterSuspensionEndsNoHost) {
  RunARound();
  now_ += kLease / 2;
  core_.OnTick(now_, &effects_);
  EndHost();
  Connected();
  EXPECT_EQ(LastStatus().how_host_ended(), "");
  EXPECT_THAT(Took<Note>(), testing::Contains(testing::Field(
                                &Note::text, "muster (pid 50) died unexpectedly; cleaning up its workers")));
}

TEST_F(AgentStatusTest, ALeaseThatEndsWhileTheAgentRunsIsNoSuspension) {
  RunARound();
  Pass(kLease);
  EndHost();
  EXPECT_EQ(LastStatus().how_host_ended(), "");
}

TEST_F(AgentStatusTest, TimesInTheJobAndInTheGatheringAreAges) {
  Connected();
  v1::Directive wait = Directive(1);
  wait.mutable_wait()->set_gathering(true);
  Give(wait);
  HostApplies();
  now_ += absl::Seconds(2);
  host_.set_preparing("its preflight runs");
  Host();
  EXPECT_EQ(LastStatus().in_job_ms(), 2000);
  EXPECT_EQ(LastStatus().gathering_ms(), 2000);
  v1::Directive again = Directive(2);
  again.mutable_wait()->set_gathering(true);
  Give(again);
  now_ += absl::Seconds(1);
  host_.clear_preparing();
  Host();
  EXPECT_EQ(LastStatus().gathering_ms(), 3000) << "a further WAIT does not begin it anew";
  Give(Directive(3));  // a spare while a round runs
  host_.set_preparing("its preflight runs");
  Host();
  EXPECT_EQ(LastStatus().gathering_ms(), 0);
}

TEST_F(AgentStatusTest, ANodeThatLeavesDoesNotGather) {
  Connected();
  host_.mutable_leave()->set_signal(15);
  Host();
  v1::Directive wait = Directive(1);
  wait.mutable_wait()->set_gathering(true);
  Give(wait);
  EXPECT_EQ(LastOrder().memory().gathering_since_boot_ns(), 0);
}

TEST_F(AgentStatusTest, ARunAndAVerdictEndTheGathering) {
  for (const bool run : {true, false}) {
    Connected();
    v1::Directive wait = Directive(run ? 1 : 11);
    wait.mutable_wait()->set_gathering(true);
    Give(wait);
    ASSERT_NE(LastOrder().memory().gathering_since_boot_ns(), 0);
    v1::Directive next = Run(run ? 2 : 12, 1);
    if (!run) next.mutable_verdict()->set_exit_code(3);
    Give(next);
    EXPECT_EQ(LastOrder().memory().gathering_since_boot_ns(), 0);
  }
}

// The counts' ages were those at the moment when the round was told.
TEST_F(AgentStatusTest, TheRoundsAgesGrowWithTime) {
  Connected();
  v1::Directive run = Run(5, 1);
  run.mutable_run()->add_loss_ages_ms(100);
  run.mutable_run()->add_failure_ages_ms(200);
  run.mutable_run()->add_excluded()->set_left_ms(60'000);
  Give(run);
  HostApplies();
  Forget();
  now_ += absl::Seconds(3);
  Host();
  EXPECT_EQ(Statuses(), 0u) << "ages are no news";
  now_ += absl::Seconds(1);
  host_.set_preparing("its preflight runs");
  Host();
  const v1::Round last = LastStatus().last();
  EXPECT_EQ(last.age_ms(), 4000);
  EXPECT_EQ(last.loss_ages_ms(0), 4100);
  EXPECT_EQ(last.failure_ages_ms(0), 4200);
  EXPECT_EQ(last.excluded(0).left_ms(), 56'000);
}

TEST_F(AgentStatusTest, WhatOnlyAgesIsNoNews) {
  Connected();
  v1::Directive stop = Run(5, 1);
  *stop.mutable_greatest() = stop.run();
  stop.mutable_greatest()->mutable_primary_ended()->set_known_to(3);
  Give(stop);
  *host_.mutable_started() = Run(5, 1).run().id();
  host_.set_phase(v1::HOST_PHASE_RUNNING);
  host_.set_outcome(v1::OUTCOME_FAILED);
  host_.mutable_failure()->set_exit_code(1);
  host_.set_failure_boot_ns(ToBootNanos(now_));
  HostApplies();
  ASSERT_TRUE(LastStatus().has_failure());
  ASSERT_TRUE(LastStatus().last().has_primary_ended());
  Forget();
  now_ += absl::Seconds(1);
  Host();
  EXPECT_EQ(Statuses(), 0u);
  host_.set_progressed(true);
  Host();
  EXPECT_EQ(Statuses(), 1u);
  EXPECT_TRUE(LastStatus().progressed());
}

// A STOP of a round changes nothing else about a node that has failed before it.
TEST_F(AgentStatusTest, AnAppliedStopIsNews) {
  Connected();
  Give(Run(5, 1));
  HostApplies();
  Forget();
  v1::Directive stop = Directive(6);
  *stop.mutable_stop()->mutable_round() = Run(5, 1).run().id();
  Give(stop);
  HostApplies();
  EXPECT_EQ(Statuses(), 1u);
}

TEST_F(AgentStatusTest, ProgressCountsForTheNewestRoundOnly) {
  Connected();
  Give(Run(5, 1));
  host_.set_progressed(true);  // of an earlier round
  HostApplies();
  EXPECT_FALSE(LastStatus().progressed());
  EXPECT_EQ(LastStatus().outcome(), v1::OUTCOME_TOLD);
  *host_.mutable_started() = Run(5, 1).run().id();
  Host();
  EXPECT_TRUE(LastStatus().progressed());
}

TEST_F(AgentStatusTest, IsRepeatedWithTheAgreedBeat) {
  Connected();
  Give(Directive(1));
  HostApplies();
  Forget();
  Pass(absl::Seconds(5));
  EXPECT_EQ(Statuses(), 10u) << "the default";
  v1::Directive settings = Directive(2);
  settings.mutable_settings()->set_beat_ms(1000);
  Give(settings);
  HostApplies();
  Pass(absl::Seconds(1));
  Forget();
  Pass(absl::Seconds(3));
  EXPECT_EQ(Statuses(), 3u);
}

TEST_F(AgentStatusTest, NothingIsSentWithoutAConnection) {
  host_.set_preparing("its preflight runs");
  Host();
  Pass(absl::Seconds(2));
  EXPECT_EQ(Statuses(), 0u);
}

TEST_F(AgentStatusTest, AnUnfitNodeIsUnusable) {
  Connected();
  host_.set_unfit(true);
  Host();
  EXPECT_EQ(LastStatus().phase(), v1::PHASE_UNUSABLE);
}

TEST_F(AgentStatusTest, AProcessThatSurvivesSigkillMakesTheNodeUnusable) {
  Connected();
  host_.set_phase(v1::HOST_PHASE_STUCK);
  Host();
  EXPECT_EQ(LastStatus().phase(), v1::PHASE_UNUSABLE);
  EXPECT_EQ(LastStatus().live_workers(), 1) << "whatever the host can name";
}

TEST_F(AgentStatusTest, NamesTheEpochThatTheAgentFollows) {
  Connected();
  Give(Directive(1, 3));
  EXPECT_EQ(core_.memory().epoch().number(), 3u);
  host_.set_preparing("its preflight runs");
  Host();
  EXPECT_EQ(LastStatus().epoch().number(), 3u);
  EXPECT_EQ(LastStatus().applied().epoch().number(), 0u) << "its host has not stored it yet";
}

TEST_F(AgentStatusTest, FactsAreNotRepeatedOnceTheFirstStatusIsAnswered) {
  Connected();
  ASSERT_EQ(Statuses(), 1u);
  Give(Directive(1));
  Pass(absl::Seconds(1));
  EXPECT_EQ(LastStatus().facts_size(), 0);
  EXPECT_EQ(LastStatus().coordinator_silent_ms(), 0);
}

TEST_F(AgentStatusTest, TheGatheringsAgeIsNoNews) {
  Connected();
  v1::Directive wait = Directive(1);
  wait.mutable_wait()->set_gathering(true);
  Give(wait);
  HostApplies();
  Forget();
  now_ += absl::Seconds(2);
  Host();
  EXPECT_EQ(Statuses(), 0u);
}

class AgentOfARunningHostTest : public AgentStatusTest {
 protected:
  void SetUp() override {
    Connected();
    Give(Run(5, 1));
    *host_.mutable_started() = Run(5, 1).run().id();
    Set(v1::HOST_PHASE_RUNNING, v1::OUTCOME_RAN, 2);
  }
  void Set(v1::HostPhase phase, v1::Outcome outcome, int workers) {
    host_.set_phase(phase);
    host_.set_outcome(outcome);
    host_.clear_workers();
    for (int i = 0; i < workers; ++i) host_.add_workers()->set_local_rank(i);
    HostApplies();
  }
};

TEST_F(AgentOfARunningHostTest, AFailureIsReportedBeforeTheOthersEnd) {
  Set(v1::HOST_PHASE_STOPPING, v1::OUTCOME_FAILED, 1);
  EXPECT_EQ(LastStatus().phase(), v1::PHASE_FAILED);
  EXPECT_EQ(LastStatus().live_workers(), 1);
}

TEST_F(AgentOfARunningHostTest, SuccessIsReportedOnceTheRoundIsGone) {
  Set(v1::HOST_PHASE_STOPPING, v1::OUTCOME_SUCCEEDED, 0);
  EXPECT_EQ(LastStatus().phase(), v1::PHASE_RUNNING);
  EXPECT_EQ(LastStatus().live_workers(), 1) << "the workers' leftovers are being ended";
  Set(v1::HOST_PHASE_IDLE, v1::OUTCOME_SUCCEEDED, 0);
  EXPECT_EQ(LastStatus().phase(), v1::PHASE_SUCCEEDED);
  EXPECT_EQ(LastStatus().live_workers(), 0);
}

TEST_F(AgentOfARunningHostTest, OnlyTheNewestRoundsOutcomeIsReported) {
  host_.mutable_failure()->set_exit_code(7);
  Set(v1::HOST_PHASE_IDLE, v1::OUTCOME_FAILED, 0);
  EXPECT_EQ(LastStatus().outcome(), v1::OUTCOME_FAILED);
  v1::Directive wait = Directive(6);  // the others continued in another round
  *wait.mutable_greatest() = Run(6, 2).run();
  wait.mutable_greatest()->clear_node_rank();
  Give(wait);
  HostApplies();
  EXPECT_EQ(LastStatus().outcome(), v1::OUTCOME_TOLD);
  EXPECT_FALSE(LastStatus().has_failure());
}

TEST_F(AgentOfARunningHostTest, EachPhaseOfARoundIsReported) {
  const auto phase = [this](v1::HostPhase phase, v1::Outcome outcome) {
    Set(phase, outcome, 1);
    return LastStatus().phase();
  };
  EXPECT_EQ(phase(v1::HOST_PHASE_STARTING, v1::OUTCOME_RAN), v1::PHASE_STARTING);
  EXPECT_EQ(phase(v1::HOST_PHASE_RUNNING, v1::OUTCOME_RAN), v1::PHASE_RUNNING);
  EXPECT_EQ(phase(v1::HOST_PHASE_STOPPING, v1::OUTCOME_STOPPED), v1::PHASE_STOPPING);
  EXPECT_EQ(phase(v1::HOST_PHASE_IDLE, v1::OUTCOME_STOPPED), v1::PHASE_READY);
  EXPECT_EQ(phase(v1::HOST_PHASE_IDLE, v1::OUTCOME_FAILED), v1::PHASE_FAILED);
}

// After its STOP the node is ready, and the outcome stays known.
TEST_F(AgentOfARunningHostTest, AStopEndsSuccessAndFailureAsPhases) {
  for (const v1::Outcome outcome : {v1::OUTCOME_SUCCEEDED, v1::OUTCOME_FAILED}) {
    Set(v1::HOST_PHASE_IDLE, outcome, 0);
    *host_.mutable_memory()->mutable_stopped() = host_.started();
    Host();
    EXPECT_EQ(LastStatus().phase(), v1::PHASE_READY);
    EXPECT_EQ(LastStatus().outcome(), outcome);
    host_.mutable_memory()->clear_stopped();
  }
}

TEST_F(AgentOfARunningHostTest, AnOlderRoundsSuccessIsNotAPhase) {
  Set(v1::HOST_PHASE_IDLE, v1::OUTCOME_SUCCEEDED, 0);
  for (const v1::Outcome outcome : {v1::OUTCOME_SUCCEEDED, v1::OUTCOME_FAILED}) {
    host_.set_outcome(outcome);
    host_.mutable_memory()->mutable_last()->mutable_id()->set_number(2);
    Host();
    EXPECT_EQ(LastStatus().phase(), v1::PHASE_READY);
  }
}

}  // namespace
}  // namespace muster::agent
