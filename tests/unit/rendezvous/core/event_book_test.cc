// What is kept of a job's events.
#include "rendezvous/core/event_book.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace muster::rendezvous {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

v1::Epoch EpochOf(uint64_t number) {
  v1::Epoch epoch;
  epoch.set_number(number);
  return epoch;
}

v1::Event Named(const std::string& text) {
  v1::Event event;
  event.set_text(text);
  return event;
}

class EventBookTest : public ::testing::Test {
 protected:
  void Add(const std::string& text) {
    v1::Event event = Named(text);
    event.set_name("hang");
    book_.Add(now_, EpochOf(2), event);
  }
  std::vector<std::string> Texts() const {
    std::vector<std::string> texts;
    const v1::Events events = book_.ToMessage(now_);
    for (const v1::Event& event : events.newest()) texts.push_back(event.text());
    return texts;
  }

  BootTime now_ = FromBootNanos(1'000'000'000'000);
  EventBook book_;
};

TEST_F(EventBookTest, EventsHaveNumbersAndAges) {
  Add("first");
  now_ += absl::Seconds(3);
  Add("second");
  const v1::Events events = book_.ToMessage(now_);
  ASSERT_EQ(events.newest_size(), 2);
  EXPECT_EQ(events.newest(0).number(), 1u);
  EXPECT_EQ(events.newest(0).age_ms(), 3'000);
  EXPECT_EQ(events.newest(1).number(), 2u);
  EXPECT_EQ(events.newest(1).epoch().number(), 2u);
}

TEST_F(EventBookTest, OnlyTheNewestAreKept) {
  for (int i = 0; i <= kMaxEventsKept; ++i) Add(std::to_string(i));
  const std::vector<std::string> texts = Texts();
  EXPECT_EQ(texts.size(), size_t{kMaxEventsKept});
  EXPECT_EQ(texts.front(), "1");
}

TEST_F(EventBookTest, TextsAreOneShortLine) {
  Add("two\nlines " + std::string(2 * kMaxEventText, 'x'));
  const std::string text = Texts().front();
  EXPECT_LE(text.size(), kMaxEventText + 3) << "and a mark of what was cut";
  EXPECT_EQ(text.find('\n'), std::string::npos);
}

TEST_F(EventBookTest, WhatNodesHoldOfAnEarlierCoordinatorComesBeforeItsOwn) {
  Add("own");
  EventBook::Events held;
  *held.Add() = Named("earlier");
  held.at(0).set_name("node_lost");
  held.at(0).set_age_ms(60'000);
  *held.at(0).mutable_epoch() = EpochOf(1);
  held.at(0).set_number(7);
  *held.Add() = book_.ToMessage(now_).newest(0);
  *held.Add() = Named("an invention");
  book_.Adopt(now_, held);
  book_.Adopt(now_, held);  // another node holds the same
  EXPECT_THAT(Texts(), ElementsAre("earlier", "own"));
}

TEST_F(EventBookTest, OnlyItsOwnAreCopiedAndInParts) {
  EventBook::Events held;
  *held.Add() = Named("earlier");
  held.at(0).set_name("hang");
  book_.Adopt(now_, held);
  for (int i = 0; i < kEventsPerDirective + 1; ++i) Add(std::to_string(i));
  EventBook::Events first, second, third;
  uint64_t number = book_.CopyAfter(now_, 0, kEventsPerDirective, &first);
  EXPECT_EQ(first.size(), kEventsPerDirective);
  EXPECT_EQ(first.at(0).text(), "0");
  number = book_.CopyAfter(now_, number, kEventsPerDirective, &second);
  ASSERT_EQ(second.size(), 1);
  EXPECT_EQ(second.at(0).text(), std::to_string(kEventsPerDirective));
  EXPECT_EQ(book_.CopyAfter(now_, number, kEventsPerDirective, &third), number);
  EXPECT_THAT(third, IsEmpty());
}

}  // namespace
}  // namespace muster::rendezvous
