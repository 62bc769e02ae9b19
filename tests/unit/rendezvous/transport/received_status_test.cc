#include "rendezvous/transport/received_status.h"

#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/wire/ids.h"
#include "base/wire/ranges.h"
#include "rendezvous/core/coordinator.h"
#include "rendezvous/core/options.h"
#include "rendezvous/transport/received_directive.h"

namespace muster::rendezvous {
namespace {

constexpr char kGroupBegins = '\x0b', kGroupEnds = '\x0c';  // of field 1

v1::AgentStatus OurStatus() {
  v1::AgentStatus status;
  status.set_protocol(kProtocol);
  return status;
}

// What a node of each protocol so far says first, by protocol.
std::vector<std::string> FirstStatuses() {
  std::ifstream in(MUSTER_SOURCE_DIR "/tests/fixtures/first_statuses.tsv");
  std::vector<std::string> all;
  for (std::string line; std::getline(in, line);) {
    if (line.front() == '#') continue;
    EXPECT_EQ(line.substr(0, line.find('\t')), absl::StrCat(all.size()));
    all.push_back(absl::HexStringToBytes(line.substr(line.find('\t') + 1)));
  }
  return all;
}

std::string Read(const std::string& bytes) {
  const auto status = ReadStatus(bytes);
  return status.ok() ? "" : std::string(status.status().message());
}

TEST(ReceivedStatusTest, AStatusIsReadAsItWasWritten) {
  v1::AgentStatus status = OurStatus();
  status.set_run_id("run");
  status.mutable_last()->add_loss_ages_ms(123'456'789);
  (*status.mutable_facts())["a"] = "b";
  const auto read = ReadStatus(status.SerializeAsString());
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->SerializeAsString(), status.SerializeAsString());
}

TEST(ReceivedStatusTest, TheLargestHonestStatusIsRead) {
  v1::AgentStatus status = OurStatus();
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
  v1::AgentStatus status = OurStatus();
  for (size_t i = 0; i < kMaxStatusFields; ++i) status.mutable_verdict()->add_other_failures();
  EXPECT_EQ(Read(status.SerializeAsString()), "it sent a status of more than 8192 fields");
  status.mutable_verdict()->mutable_other_failures()->RemoveLast();
  status.mutable_verdict()->mutable_other_failures()->RemoveLast();
  EXPECT_EQ(Read(status.SerializeAsString()), "") << "two fields fewer, with protocol and verdict";
}

TEST(ReceivedStatusTest, ElementsOfPackedListsCount) {
  v1::AgentStatus status = OurStatus();
  for (size_t i = 0; i < kMaxStatusFields; ++i) status.mutable_last()->add_failure_ages_ms(1);
  EXPECT_NE(Read(status.SerializeAsString()), "");
  status.mutable_last()->mutable_failure_ages_ms()->Truncate(kMaxStatusFields - 3);
  EXPECT_EQ(Read(status.SerializeAsString()), "");
}

// The parser keeps what it does not know.
TEST(ReceivedStatusTest, UnknownFieldsCount) {
  std::string unknown;
  for (size_t i = 0; i < kMaxStatusFields; ++i) unknown += std::string("\xa0\x1f\x01", 3);  // field 500
  EXPECT_EQ(Read(unknown), "");
  EXPECT_NE(Read(unknown + std::string("\xa0\x1f\x01", 3)), "");
}

// The coordinator stores statuses.
TEST(ReceivedStatusTest, UnknownFieldsAreNotKept) {
  const std::string known = OurStatus().SerializeAsString();
  // Field 500; and `slots`, a number, as a text.
  for (const std::string& unknown : {std::string("\xa0\x1f\x01", 3), std::string("\x72\x02hi", 4)}) {
    const absl::StatusOr<v1::AgentStatus> read = ReadStatus(known + unknown);
    ASSERT_TRUE(read.ok());
    EXPECT_EQ(read->SerializeAsString(), known);
  }
}

TEST(ReceivedStatusTest, MessagesWithinEachOtherHaveALimit) {
  v1::AgentStatus status = OurStatus();
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
  EXPECT_EQ(Read(OurStatus().SerializeAsString() + std::string("\x0a\x01\xff", 3)),
            "it sent something that is no status")
      << "text that is not UTF-8";
}

TEST(OtherVersions, OfAnotherProtocolOnlyTheHeadIsRead) {
  const std::vector<std::string> firsts = FirstStatuses();
  ASSERT_EQ(firsts.size(), kProtocol + 1) << "add the first status of the new protocol to first_statuses.tsv";
  for (uint32_t protocol = 0; protocol < kProtocol; ++protocol) {
    const auto read = ReadStatus(firsts[protocol]);
    ASSERT_TRUE(read.ok()) << protocol << ": " << read.status();
    v1::AgentStatus head;
    head.set_protocol(protocol);
    head.set_hostname("old-node");
    head.set_version("0.1.0");
    EXPECT_EQ(read->SerializeAsString(), head.SerializeAsString());
  }
  EXPECT_EQ(ReadStatus(firsts[kProtocol])->run_id(), "recorded");
}

TEST(OtherVersions, NoContentHidesTheProtocol) {
  v1::StatusHead head;
  head.set_hostname(std::string("\xff\n", 2));
  head.set_protocol(kProtocol + 1);
  const auto read = ReadStatus(head.SerializeAsString() + std::string("\x0a\x01\xff\x1a\x01\xff", 6));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->protocol(), kProtocol + 1);
  EXPECT_EQ(read->hostname(), "\\xff\\n");
}

// The refused node, which reads Refused in any protocol, and the primary's log.
TEST(OtherVersions, BothSidesNameBothProtocols) {
  const std::vector<std::string> firsts = FirstStatuses();
  for (uint32_t protocol = 0; protocol < kProtocol; ++protocol) {
    CoordinatorOptions options;
    options.run_id = "recorded";
    Coordinator coordinator(options, FromBootNanos(1'000'000'000), 1);
    Effects effects;
    coordinator.OnStatus(FromBootNanos(1'000'000'000), 1, *ReadStatus(firsts[protocol]), &effects);
    const std::string both =
        absl::StrCat("protocol ", protocol, " (muster 0.1.0) differs from this job's protocol ", kProtocol,
                     "; use one version of muster on all nodes");
    std::string told, logged;
    for (const Effect& effect : effects) {
      if (const auto* send = std::get_if<SendDirective>(&effect)) told = send->directive.refused().reason();
      if (const auto* note = std::get_if<Note>(&effect)) logged += note->text;
    }
    EXPECT_EQ(told, both);
    EXPECT_EQ(logged, absl::StrCat("refused old-node: ", both));
  }
}

TEST(OtherVersions, ADirectiveOfAnotherProtocolIsReadUpToItsRefusal) {
  v1::DirectiveHead head;
  head.set_protocol(kProtocol + 1);
  head.mutable_refused()->set_reason("use one version");
  const std::string unreadable("\x0a\x01\xff", 3);  // as Directive.id
  const auto read = ReadDirective(unreadable + head.SerializeAsString());
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->protocol(), kProtocol + 1);
  EXPECT_EQ(read->refused().reason(), "use one version");
  head.set_protocol(kProtocol);
  EXPECT_EQ(ReadDirective(unreadable + head.SerializeAsString()).status().message(),
            "it sent something that is no order");
}

}  // namespace
}  // namespace muster::rendezvous
