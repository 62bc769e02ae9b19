// How people are shown what has happened to a job.
#include "cli/status/events_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace muster::cli {
namespace {

v1::Events Two() {
  v1::Events events;
  v1::Event* event = events.add_newest();
  event->set_number(1);
  event->set_name("round_started");
  event->set_text("round 1 begins");
  event->set_age_ms(61'000);
  event = events.add_newest();
  event->set_number(2);
  event->set_name("node_lost");
  event->set_text("node 7 (gpu-07) was lost");
  event->set_is_bad(true);
  return events;
}

TEST(EventsText, EachIsALineAndBadOnesAreMarked) {
  const absl::Time now = absl::FromUnixSeconds(1'800'000'000);
  EXPECT_EQ(EventsText(Two(), now, absl::UTCTimeZone()),
            "2027-01-15 07:58:59.000    round_started     round 1 begins\n"
            "2027-01-15 08:00:00.000  ! node_lost         node 7 (gpu-07) was lost\n");
}

TEST(EventsText, WhatWasShownIsNotShownAgain) {
  ShownEvents shown;
  v1::Events events = Two();
  shown.KeepNew(&events);
  EXPECT_EQ(events.newest_size(), 2);
  events = Two();
  events.add_newest()->set_number(3);
  shown.KeepNew(&events);
  ASSERT_EQ(events.newest_size(), 1);
  EXPECT_EQ(events.newest(0).number(), 3u);
  events = Two();
  events.mutable_newest(0)->mutable_epoch()->set_number(2);
  shown.KeepNew(&events);
  EXPECT_EQ(events.newest_size(), 1) << "another coordinator counts anew";
  events = Two();
  shown.KeepNew(&events);
  EXPECT_EQ(events.newest_size(), 0) << "what was shown before the takeover is not shown again";
}

}  // namespace
}  // namespace muster::cli
