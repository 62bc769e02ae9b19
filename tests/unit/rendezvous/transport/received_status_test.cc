#include "rendezvous/transport/received_status.h"

#include <gtest/gtest.h>

#include <string>

#include "base/ranges.h"
#include "rendezvous/core/options.h"

namespace muster::rendezvous {
namespace {

constexpr char kGroupBegins = '\x0b', kGroupEnds = '\x0c';  // of field 1

std::string Read(const std::string& bytes) {
  const auto status = ReadStatus(bytes);
  return status.ok() ? "" : std::string(status.status().message());
}

TEST(ReceivedStatusTest, AStatusIsReadAsItWasWritten) {
  v1::AgentStatus status;
  status.set_run_id("run");
  status.mutable_last()->add_loss_ages_ms(123'456'789);
  (*status.mutable_facts())["a"] = "b";
  const auto read = ReadStatus(status.SerializeAsString());
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->SerializeAsString(), status.SerializeAsString());
}

TEST(ReceivedStatusTest, TheLargestHonestStatusIsRead) {
  v1::AgentStatus status;
  for (int i = 0; i < kMaxLossAges; ++i) status.mutable_last()->add_loss_ages_ms(kMaxAge);
  for (int i = 0; i < kMaxFailureAges; ++i) status.mutable_last()->add_failure_ages_ms(kMaxAge);
  for (size_t i = 0; i < kMaxExcluded; ++i) {
    v1::Exclusion& excluded = *status.mutable_last()->add_excluded();
    excluded.set_host_id(std::string(64, 'x'));
    excluded.set_left_ms(kMaxAge);
  }
  for (int64_t i = 0; i < kMaxFactsSent; ++i) (*status.mutable_facts())[std::to_string(i)] = "value";
  EXPECT_EQ(Read(status.SerializeAsString()), "");
}

// Two bytes each in the message, some 200 in memory.
TEST(ReceivedStatusTest, ManyEmptyMessagesAreRefused) {
  v1::AgentStatus status;
  for (size_t i = 0; i < kMaxStatusFields; ++i) status.mutable_verdict()->add_other_failures();
  EXPECT_EQ(Read(status.SerializeAsString()), "it sent a status of more than 8192 fields");
  status.mutable_verdict()->mutable_other_failures()->RemoveLast();
  EXPECT_EQ(Read(status.SerializeAsString()), "") << "one field fewer, with the verdict itself";
}

TEST(ReceivedStatusTest, ElementsOfPackedListsCount) {
  v1::AgentStatus status;
  for (size_t i = 0; i < kMaxStatusFields; ++i) status.mutable_last()->add_failure_ages_ms(1);
  EXPECT_NE(Read(status.SerializeAsString()), "");
  status.mutable_last()->mutable_failure_ages_ms()->Truncate(kMaxStatusFields - 2);
  EXPECT_EQ(Read(status.SerializeAsString()), "");
}

// The parser keeps what it does not know.
TEST(ReceivedStatusTest, UnknownFieldsCount) {
  std::string unknown;
  for (size_t i = 0; i < kMaxStatusFields; ++i) unknown += std::string("\xa0\x1f\x01", 3);  // field 500
  EXPECT_EQ(Read(unknown), "");
  EXPECT_NE(Read(unknown + std::string("\xa0\x1f\x01", 3)), "");
}

TEST(ReceivedStatusTest, MessagesWithinEachOtherHaveALimit) {
  v1::AgentStatus status;
  v1::Failure* failure = status.mutable_failure();
  for (int depth = 2; depth < kMaxStatusNesting; ++depth) failure = failure->add_others();
  EXPECT_EQ(Read(status.SerializeAsString()), "");
  failure->add_others();
  EXPECT_EQ(Read(status.SerializeAsString()), "it sent a status with more than 16 messages within each other");
}

TEST(ReceivedStatusTest, WhatIsNoStatusIsRefused) {
  const std::string group = {kGroupBegins, kGroupEnds};
  for (const std::string& bytes :
       {std::string("\xff\xff\xff"),
        std::string("\x0a\x05"
                    "ab"),
        std::string("\x00", 1), std::string("\x0a\xff\xff\xff\xff\x0f"), group, std::string("\x0a")}) {
    EXPECT_EQ(Read(bytes), "it sent something that is no status");
  }
  EXPECT_EQ(Read(std::string("\x0a\x01\xff", 3)), "it sent something that is no status")
      << "text that is not UTF-8";
}

}  // namespace
}  // namespace muster::rendezvous
