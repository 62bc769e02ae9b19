// Timers of the loop: their order, and what cancelling does.
#include "base/io/event_loop.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace muster {
namespace {

class EventLoopTest : public ::testing::Test {
 protected:
  // A timer that records this number.
  EventLoop::TimerId Record(BootTime when, int number) {
    return loop_.At(when, [this, number] { fired_.push_back(number); });
  }
  // Runs all timers that are due by then.
  std::vector<int> RunUntil(BootTime when) {
    loop_.At(when, [this] { loop_.Stop(); });
    loop_.Run();
    return fired_;
  }

  EventLoop loop_;
  const BootTime past_ = EventLoop::Now() - absl::Seconds(1);
  std::vector<int> fired_;
};

TEST_F(EventLoopTest, TimersFireInOrderOfTimeThenOfSetting) {
  Record(past_, 2);
  Record(past_ - absl::Seconds(1), 1);
  Record(past_, 3);
  EXPECT_EQ(RunUntil(past_), (std::vector<int>{1, 2, 3}));
}

TEST_F(EventLoopTest, OnlyTheCancelledTimerDoesNotFire) {
  Record(past_, 1);
  const EventLoop::TimerId cancelled = Record(past_, 2);
  Record(past_, 3);
  loop_.Cancel(cancelled);
  EXPECT_EQ(RunUntil(past_), (std::vector<int>{1, 3}));
}

TEST_F(EventLoopTest, ATimerCancelsALaterOneOfItsInstant) {
  EventLoop::TimerId later = 0;
  loop_.At(past_, [&] { loop_.Cancel(later); });
  later = Record(past_, 1);
  Record(past_, 2);
  EXPECT_EQ(RunUntil(past_), std::vector<int>{2});
}

TEST_F(EventLoopTest, CancellingWhatHasFiredOrNeverWasChangesNothing) {
  const EventLoop::TimerId fired = Record(past_, 1);
  EventLoop::TimerId self = 0;
  self = loop_.At(past_, [&] { loop_.Cancel(self); });
  RunUntil(past_);
  Record(past_, 2);
  for (const EventLoop::TimerId id : {fired, self, EventLoop::TimerId{0}, self + 1000}) loop_.Cancel(id);
  EXPECT_EQ(RunUntil(past_), (std::vector<int>{1, 2}));
}

TEST_F(EventLoopTest, WhatIsPostedBehindAStopRunsNextTime) {
  for (const int number : {1, 2, 3}) {
    loop_.Post([this, number] {
      fired_.push_back(number);
      if (number == 1) loop_.Stop();
    });
  }
  loop_.Run();
  EXPECT_EQ(fired_, std::vector<int>{1});
  loop_.Post([this] { loop_.Stop(); });
  loop_.Run();
  EXPECT_EQ(fired_, (std::vector<int>{1, 2, 3}));
}

TEST_F(EventLoopTest, OfManyTimersEachIsCancelledByItsId) {
  std::vector<EventLoop::TimerId> ids;
  for (int i = 0; i < 20'000; ++i) ids.push_back(Record(past_, i));
  for (size_t i = ids.size(); i-- > 0;) {
    if (i % 1'000 != 0) loop_.Cancel(ids[i]);
  }
  const std::vector<int> fired = RunUntil(past_);
  EXPECT_EQ(fired.size(), 20u);
  EXPECT_TRUE(std::all_of(fired.begin(), fired.end(), [](int i) { return i % 1'000 == 0; }));
}

}  // namespace
}  // namespace muster
