// What people order of a running job.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>

#include "absl/strings/str_cat.h"
#include "rendezvous/core/orders.h"
#include "rendezvous/core/snapshot.h"
#include "tests/unit/rendezvous/core/coordinator_cluster.h"

namespace muster::rendezvous {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Two nodes of two workers each: ranks 0 and 1 on a, 2 and 3 on b.
class OrdersTest : public ::testing::Test {
 protected:
  OrdersTest() {
    c_.Join("a", 0);
    c_.Join("b", 1);
    for (const char* name : {"a", "b"}) c_.Apply(name);
    c_.Pass(absl::Seconds(20), {"a", "b"});
    EXPECT_EQ(c_.state(), State::kRunning);
  }

  v1::Order Make(v1::Order::Kind kind) {
    v1::Order order;
    order.set_kind(kind);
    order.set_id(absl::StrCat("order ", ++orders_));
    order.set_by("root@gpu-1");
    order.set_reason("the data was mended");
    *order.mutable_epoch() = c_.core().epoch();
    return order;
  }
  v1::Ordered Give(const v1::Order& order) {
    c_.Order(order);
    return Answer(order);
  }
  v1::Ordered Answer(const v1::Order& order) { return AnswerTo(order, c_.core().job()); }
  v1::Ordered AnswerAfterATick(const v1::Order& order) {
    c_.Pass(kTick, {});
    return Answer(order);
  }
  v1::Order SignalTo(int first, int last, int signal = SIGUSR1) {
    v1::Order order = Make(v1::Order::KIND_SIGNAL);
    order.set_signal(signal);
    v1::RankRange* const range = order.add_ranks();
    range->set_first(first);
    range->set_last(last);
    return order;
  }
  void Confirm(const std::string& name, int processes) {
    v1::SignalAnswer* const answer = c_.At(name).status.mutable_signalled();
    answer->set_number(c_.Told(name).signal().number());
    answer->set_processes(processes);
    c_.Say(name);
  }
  void EndTheRound() {
    for (const char* name : {"a", "b"}) c_.Apply(name);
  }

  int orders_ = 0;
  Cluster c_{Fixed(2, 0)};
};

TEST_F(OrdersTest, AStopEndsTheJobWithItsCode) {
  v1::Order order = Make(v1::Order::KIND_STOP);
  order.set_exit_code(3);
  const v1::Ordered answer = Give(order);
  EXPECT_TRUE(answer.obeyed() && answer.done());
  EXPECT_EQ(answer.text(), "the job ends with exit code 3");
  EXPECT_EQ(c_.Told("a").stop().cause(), "muster stop --code 3 by root@gpu-1: the data was mended");
  EndTheRound();
  ASSERT_TRUE(c_.core().verdict());
  EXPECT_EQ(c_.core().verdict()->exit_code(), 3);
  EXPECT_EQ(c_.core().verdict()->reason(), "muster stop --code 3 by root@gpu-1: the data was mended");
}

TEST_F(OrdersTest, ARestartCostsNothing) {
  ASSERT_TRUE(Give(Make(v1::Order::KIND_RESTART)).obeyed());
  EXPECT_EQ(c_.state(), State::kDraining);
  EndTheRound();
  ASSERT_EQ(c_.state(), State::kRunning) << "--max-restarts 0 counts failures, and this is none";
  EXPECT_EQ(c_.core().greatest().restart_count(), 1);
  EXPECT_EQ(c_.core().greatest().idle_changes(), 0);
  const v1::JobView view = Snapshot(c_.now(), c_.core().job());
  ASSERT_EQ(view.ended_size(), 1);
  EXPECT_EQ(view.ended(0).kind(), v1::EndedRound::KIND_ASKED);
  EXPECT_EQ(view.ended(0).cause(), "muster restart by root@gpu-1: the data was mended");
  EndTheRound();
  c_.Pass(absl::Seconds(20), {"a", "b"});
  EXPECT_EQ(c_.core().greatest().id().number(), 2u) << "one restart for one order";
}

TEST_F(OrdersTest, AFailureBeforeTheRestartCounts) {
  c_.At("b").status.set_live_workers(1);
  Give(Make(v1::Order::KIND_RESTART));
  c_.Sleep(absl::Seconds(1));
  c_.Fail("b", 7);
  c_.At("b").failed_at = c_.now() - absl::Seconds(3);
  c_.Say("b");
  EndTheRound();
  ASSERT_TRUE(c_.core().verdict());
  EXPECT_EQ(c_.core().verdict()->exit_code(), 7);
}

TEST_F(OrdersTest, ANodeIsDrainedByItsRankOrItsName) {
  for (const char* name : {"1", "b"}) {
    Cluster c(Fixed(2));
    c.Join("a", 0);
    c.Join("b", 1);
    c.Pass(absl::Seconds(20), {"a", "b"});
    v1::Order order = Make(v1::Order::KIND_DRAIN);
    *order.mutable_epoch() = c.core().epoch();
    order.set_node(name);
    c.Order(order);
    EXPECT_FALSE(AnswerTo(order, c.core().job()).done()) << "the node has not answered";
    EXPECT_EQ(c.Told("b").leave(), absl::StrCat("muster drain ", name, " by root@gpu-1: the data was mended"));
    EXPECT_EQ(c.Told("a").leave(), "");
    c.Phase("b", v1::PHASE_LEAVING);
    c.Pass(kTick, {});
    EXPECT_TRUE(AnswerTo(order, c.core().job()).obeyed());
    EXPECT_EQ(AnswerTo(order, c.core().job()).text(), "node 1 (b) leaves the job");
    order.set_id("again");
    c.Order(order);
    EXPECT_EQ(AnswerTo(order, c.core().job()).text(), "node 1 (b) leaves already");
  }
}

TEST_F(OrdersTest, ADrainOfANodeThatDoesNotAnswerIsNotDone) {
  v1::Order order = Make(v1::Order::KIND_DRAIN);
  order.set_node("b");
  Give(order);
  c_.Pass(kOrderAnswers, {"a", "b"});
  EXPECT_TRUE(Answer(order).done());
  EXPECT_FALSE(Answer(order).obeyed());
  EXPECT_EQ(Answer(order).text(), "no answer from node 1 (b), which leaves once it hears of it");
}

// Nobody could say any more what became of it.
TEST_F(OrdersTest, ADrainOfTheCoordinatorsOwnNodeIsNotAwaited) {
  c_.At("a").status.set_at_primary(true);
  c_.Say("a");
  v1::Order order = Make(v1::Order::KIND_DRAIN);
  order.set_node("a");
  const v1::Ordered answer = Give(order);
  EXPECT_TRUE(answer.obeyed() && answer.done());
  EXPECT_THAT(answer.text(), HasSubstr("node 0 (a) leaves the job, and the coordinator with it"));
}

TEST_F(OrdersTest, AHostNameMayBeANumber) {
  c_.At("b").status.set_hostname("07");
  c_.Say("b");
  v1::Order order = Make(v1::Order::KIND_DRAIN);
  order.set_node("07");
  Give(order);
  EXPECT_NE(c_.Told("b").leave(), "");
}

TEST_F(OrdersTest, ANodeThatIsNotThereIsNotDrained) {
  for (const char* name : {"2", "c", ""}) {
    v1::Order order = Make(v1::Order::KIND_DRAIN);
    order.set_node(name);
    EXPECT_THAT(Give(order).text(), HasSubstr("no node that is here is called")) << name;
  }
  c_.At("b").status.set_hostname("a");
  c_.Say("b");
  v1::Order order = Make(v1::Order::KIND_DRAIN);
  order.set_node("a");
  EXPECT_EQ(Give(order).text(), "2 nodes are called a: name one by its rank");
}

TEST_F(OrdersTest, ASignalGoesToTheNodesOfTheseRanksAndIsDoneWhenTheyHaveObeyed) {
  const v1::Order order = SignalTo(1, 2);
  EXPECT_FALSE(Give(order).done());
  EXPECT_THAT(c_.Told("a").signal().local_ranks(), ElementsAre(1));
  EXPECT_THAT(c_.Told("b").signal().local_ranks(), ElementsAre(0));
  EXPECT_EQ(c_.Told("b").signal().signal(), SIGUSR1);
  Confirm("a", 2);
  c_.Apply("a");
  EXPECT_FALSE(c_.Told("a").has_signal()) << "it is not asked again";
  EXPECT_FALSE(Answer(order).done());
  Confirm("b", 1);
  EXPECT_TRUE(AnswerAfterATick(order).obeyed());
  EXPECT_EQ(Answer(order).text(), "SIGUSR1: 3 processes of 2 workers got it");
}

TEST_F(OrdersTest, ASignalThatNobodyHandlesIsToldAndANodeThatIsSilentIsNamed) {
  const v1::Order first = SignalTo(0, 1);
  Give(first);
  EXPECT_EQ(c_.Told("b").has_signal(), false);
  const v1::Order second = SignalTo(0, 3);
  EXPECT_EQ(Give(second).text(), "another signal is on its way: ask again in a moment");
  Confirm("a", 0);
  EXPECT_FALSE(AnswerAfterATick(first).obeyed());
  EXPECT_EQ(Answer(first).text(), "no process of 2 workers handles SIGUSR1, so none got it");
  const v1::Order third = SignalTo(2, 2);
  Give(third);
  c_.Pass(kOrderAnswers, {"a", "b"});
  EXPECT_TRUE(Answer(third).done());
  EXPECT_FALSE(Answer(third).obeyed());
  EXPECT_EQ(Answer(third).text(), "no answer from node 1 (b), which may get it later");
  EXPECT_FALSE(c_.Told("b").has_signal()) << "it must not come late";
}

TEST_F(OrdersTest, WhatMakesNoSenseIsNotObeyed) {
  EXPECT_THAT(Give(SignalTo(3, 4)).text(), HasSubstr("expected ranks that run"));
  EXPECT_THAT(Give(SignalTo(4, 9)).text(), HasSubstr("expected ranks that run: the round has 0 to 3"));
  EXPECT_EQ(Give(SignalTo(0, 0, 65)).text(), "expected a signal from 1 to 64");
  v1::Order stop = Make(v1::Order::KIND_STOP);
  stop.set_exit_code(256);
  EXPECT_EQ(Give(stop).text(), "expected an exit code from 0 to 255");
  EXPECT_THAT(Give(Make(v1::Order::KIND_UNKNOWN)).text(), HasSubstr("does not know this order"));
  v1::Order nameless = Make(v1::Order::KIND_RESTART);
  nameless.clear_id();
  EXPECT_FALSE(Give(nameless).obeyed());
  EXPECT_EQ(c_.state(), State::kRunning);
}

TEST_F(OrdersTest, AnOrderIsObeyedOnceHoweverOftenItComes) {
  const v1::Order order = Make(v1::Order::KIND_RESTART);
  Give(order);
  EndTheRound();
  ASSERT_EQ(c_.state(), State::kRunning);
  EXPECT_TRUE(Give(order).obeyed()) << "the answer is the first one's";
  EXPECT_EQ(c_.state(), State::kRunning);
  EXPECT_EQ(c_.Events("ordered").size(), 1u);
}

TEST_F(OrdersTest, AnOrderForAnotherCoordinatorChangesNothingAndIsLogged) {
  v1::Order order = Make(v1::Order::KIND_RESTART);
  order.mutable_epoch()->set_random(order.epoch().random() + 1);
  const v1::Ordered answer = Give(order);
  EXPECT_FALSE(answer.obeyed());
  EXPECT_THAT(answer.text(), HasSubstr("another coordinator decides by now"));
  EXPECT_EQ(c_.state(), State::kRunning);
  EXPECT_EQ(c_.Said("muster restart by root@gpu-1: the data was mended: not obeyed: another"), 1);
}

TEST_F(OrdersTest, WithoutARoundNothingRestartsAndNobodyIsSignalled) {
  Give(Make(v1::Order::KIND_RESTART));
  EXPECT_EQ(Give(Make(v1::Order::KIND_RESTART)).text(), "round 1 ends already");
  EXPECT_EQ(Give(SignalTo(0, 3)).text(), "round 1 ends already");
  Give(Make(v1::Order::KIND_STOP));
  EXPECT_THAT(Give(Make(v1::Order::KIND_STOP)).text(), HasSubstr("it ends already: muster stop --code 0 by"));
  EndTheRound();
  EXPECT_THAT(Give(Make(v1::Order::KIND_RESTART)).text(), HasSubstr("the job is over: muster stop --code 0 by"));
}

// The next signal must not take the answer of the last one away, however late that is asked for.
TEST_F(OrdersTest, TheAnswerToASignalStaysWhenAnotherOneFollows) {
  const v1::Order first = SignalTo(0, 1), second = SignalTo(2, 3);
  Give(first);
  Confirm("a", 2);
  Give(second);
  EXPECT_TRUE(Answer(first).done());
  EXPECT_EQ(Answer(first).text(), "SIGUSR1: 2 processes of 2 workers got it");
  EXPECT_FALSE(Answer(second).done());
}

TEST_F(OrdersTest, NobodyWaitsForTheWorkersOfANodeThatHasSucceeded) {
  c_.Phase("a", v1::PHASE_SUCCEEDED);
  const v1::Order order = SignalTo(0, 3);
  Give(order);
  Confirm("b", 2);
  EXPECT_TRUE(AnswerAfterATick(order).obeyed());
  EXPECT_EQ(Answer(order).text(), "SIGUSR1: 2 processes of 2 workers got it");
}

// An agent refuses a directive with more of them than a message may hold.
TEST_F(OrdersTest, ANodeMayHaveMoreWorkersThanAMessageHoldsNumbers) {
  Cluster c(Fixed(1));
  c.At("a").status.set_slots(static_cast<int>(kMaxRanksSent) + 1);
  c.Join("a", 0);
  c.Pass(absl::Seconds(20), {"a"});
  ASSERT_EQ(c.state(), State::kRunning);
  v1::Order some = SignalTo(0, static_cast<int>(kMaxRanksSent));
  *some.mutable_epoch() = c.core().epoch();
  c.Order(some);
  EXPECT_EQ(AnswerTo(some, c.core().job()).text(), "expected at most 1024 ranks of one node, or all");
  v1::Order all = SignalTo(0, 0);
  all.clear_ranks();
  *all.mutable_epoch() = c.core().epoch();
  c.Order(all);
  EXPECT_EQ(c.Told("a").signal().signal(), SIGUSR1);
  EXPECT_TRUE(c.Told("a").signal().local_ranks().empty()) << "all are meant";
}

TEST_F(OrdersTest, ASignalToGroupsCountsWorkers) {
  const v1::Order order = SignalTo(0, 1, SIGKILL);
  Give(order);
  EXPECT_EQ(c_.Told("a").signal().why(), "muster signal SIGKILL --ranks 0-1 by root@gpu-1: the data was mended");
  Confirm("a", 1);
  EXPECT_EQ(AnswerAfterATick(order).text(), "SIGKILL: 1 of 2 workers got it");
}

TEST_F(OrdersTest, ANewCoordinatorDoesNotKnowWhatTheOneBeforeItWasTold) {
  const v1::Order order = Make(v1::Order::KIND_STOP);
  Cluster next(Fixed(2), 7);
  for (const char* name : {"a", "b"}) {
    next.At(name) = c_.At(name);
    next.Attach(name);
  }
  next.Order(order);
  EXPECT_FALSE(AnswerTo(order, next.core().job()).obeyed());
  EXPECT_THAT(AnswerTo(order, next.core().job()).text(),
              HasSubstr("does not know whether the one before it obeyed"));
  EXPECT_FALSE(next.core().job().asked_to_stop);
}

TEST_F(OrdersTest, TooManyOrdersAreRefusedUntilTheOldestMayBeForgotten) {
  for (size_t i = 0; i < kMaxOrdersKept; ++i) Give(Make(v1::Order::KIND_UNKNOWN));
  const v1::Order refused = Make(v1::Order::KIND_RESTART);
  EXPECT_EQ(Give(refused).text(), "too many orders came within a minute: ask again later");
  EXPECT_EQ(c_.state(), State::kRunning);
  c_.Pass(kOrderKept, {"a", "b"});
  EXPECT_TRUE(Give(refused).obeyed());
}

TEST_F(OrdersTest, AStopIsObeyedHoweverManyOrdersCame) {
  for (size_t i = 0; i < kMaxOrdersKept; ++i) Give(Make(v1::Order::KIND_UNKNOWN));
  EXPECT_TRUE(Give(Make(v1::Order::KIND_STOP)).obeyed());
}

// Its rank is not the place of another node.
TEST_F(OrdersTest, AMemberThatIsAwayIsNotTakenForAnother) {
  c_.Close("b");
  v1::Order order = Make(v1::Order::KIND_DRAIN);
  order.set_node("1");
  EXPECT_EQ(Give(order).text(), "node 1 is not there at the moment");
}

}  // namespace
}  // namespace muster::rendezvous
