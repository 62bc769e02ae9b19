// What an agent keeps of the job's events for the next coordinator.
#include "agent/process/core/held_events.h"

#include <gtest/gtest.h>

#include <string>

namespace muster::agent {
namespace {

class HeldEventsTest : public ::testing::Test {
 protected:
  void Give(uint64_t number, const std::string& text = "") {
    v1::Directive directive;
    v1::Event* const event = directive.add_events();
    event->mutable_epoch()->set_number(1);
    event->set_number(number);
    event->set_age_ms(1'000);
    event->set_text(text);
    held_.Learn(now_, directive);
  }
  v1::AgentStatus Status() const {
    v1::AgentStatus status;
    held_.AddTo(now_, status.mutable_events());
    return status;
  }

  BootTime now_ = FromBootNanos(1'000'000'000'000);
  HeldEvents held_;
};

TEST_F(HeldEventsTest, TheirAgesGoOn) {
  Give(1);
  now_ += absl::Seconds(2);
  ASSERT_EQ(Status().events_size(), 1);
  EXPECT_EQ(Status().events(0).age_ms(), 3'000);
}

TEST_F(HeldEventsTest, WhatIsSentAgainIsHeldOnce) {
  Give(1);
  Give(1);
  EXPECT_EQ(Status().events_size(), 1);
}

TEST_F(HeldEventsTest, TheNewestAreHeldByNumberAndBySize) {
  for (uint64_t i = 1; i <= kMaxEventsHeld + 1; ++i) Give(i);
  EXPECT_EQ(Status().events_size(), static_cast<int>(kMaxEventsHeld));
  EXPECT_EQ(Status().events(0).number(), 2u);
  for (uint64_t i = 1'000; i < 1'000 + kMaxEventsHeld; ++i) Give(i, std::string(1'024, 'x'));
  EXPECT_LE(Status().ByteSizeLong(), kMaxHeldBytes + 1'024);
  EXPECT_EQ(Status().events().rbegin()->number(), 999 + kMaxEventsHeld);
}

}  // namespace
}  // namespace muster::agent
