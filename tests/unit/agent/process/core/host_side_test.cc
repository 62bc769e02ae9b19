// The agent's side towards its host, without a coordinator.
#include "agent/process/core/host_side.h"

#include <gtest/gtest.h>

#include "tests/unit/effects.h"

namespace muster::agent {
namespace {

class HostSideTest : public ::testing::Test {
 protected:
  HostSideTest() {
    node_.config.set_shutdown_grace_ms(2000);
    node_.memory.mutable_last()->mutable_id()->set_number(2);
    side_.Begin(0);
  }
  v1::HostDirective Told() {
    side_.Tell(now_, &effects_);
    return AllOf<SendToHost>(effects_).back().directive;
  }
  v1::HostDirective ToldAfter(const v1::Directive& directive) {
    side_.Obey(now_, directive, &effects_);
    return Told();
  }
  static v1::Directive Run(uint64_t number) {
    v1::Directive directive;
    directive.mutable_run()->mutable_id()->set_number(number);
    return directive;
  }

  const BootTime now_ = FromBootNanos(1'000'000'000'000);
  NodeRecord node_;
  HostSide side_{&node_};
  Effects effects_;
};

TEST_F(HostSideTest, EachOrderBecomesTheHostsOrder) {
  EXPECT_TRUE(Told().hold()) << "before the first directive";
  EXPECT_EQ(ToldAfter(Run(2)).start().id().number(), 2u);
  v1::Directive stop;
  stop.mutable_stop()->set_cause("a node was lost");
  stop.mutable_stop()->set_grace_ms(500);
  EXPECT_EQ(ToldAfter(stop).stop().cause(), "a node was lost");
  EXPECT_EQ(Told().stop().grace_ms(), 500);
  v1::Directive wait;
  wait.mutable_wait();
  EXPECT_TRUE(ToldAfter(wait).hold());
  v1::Directive verdict;
  verdict.mutable_verdict();
  EXPECT_EQ(ToldAfter(verdict).stop().grace_ms(), 2000) << "the configured grace";
  v1::Directive release;
  release.mutable_release()->set_exit_code(3);
  EXPECT_EQ(ToldAfter(release).exit().exit_code(), 3);
  EXPECT_FALSE(Told().exit().tells_all());
}

TEST_F(HostSideTest, ARoundThatWasStoppedIsNotStarted) {
  node_.memory.mutable_stopped()->set_number(2);
  EXPECT_TRUE(ToldAfter(Run(2)).hold());
  EXPECT_TRUE(ToldAfter(Run(3)).has_start());
}

TEST_F(HostSideTest, TheFirstExitStands) {
  side_.ExitAlone(now_, std::nullopt, &effects_);
  EXPECT_FALSE(side_.exiting());
  side_.ExitAlone(now_, NodeEnd{77, "refused"}, &effects_);
  side_.ExitAlone(now_, NodeEnd{69, "gave up"}, &effects_);
  EXPECT_EQ(Told().exit().exit_code(), 77);
  EXPECT_TRUE(Told().exit().tells_all());
}

TEST_F(HostSideTest, AnEarlierAgentsLeaseGoesOn) {
  side_.Begin(ToBootNanos(now_ + absl::Seconds(9)));
  v1::Directive shorter;
  shorter.mutable_lease()->set_duration_ms(5000);
  side_.ExtendLease(shorter, now_);
  EXPECT_EQ(side_.lease_deadline(), now_ + absl::Seconds(9));
  side_.ExtendLease(shorter, std::nullopt);
  side_.ExtendLease(shorter, now_ + absl::Seconds(5));
  EXPECT_EQ(Told().lease_deadline_boot_ns(), ToBootNanos(now_ + absl::Seconds(10)));
}

TEST_F(HostSideTest, ADeadHostGetsNoDirective) {
  side_.OnClosed(now_, &effects_);
  EXPECT_EQ(AllOf<EndHost>(effects_).size(), 1u);
  side_.Tell(now_, &effects_);
  EXPECT_TRUE(AllOf<SendToHost>(effects_).empty());
}

}  // namespace
}  // namespace muster::agent
