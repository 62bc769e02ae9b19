// Numbers of fields in what programs of different versions may send each other. Such a program reads by number and
// type: a number that is used again with another type makes the whole message unreadable.
#include <google/protobuf/descriptor.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/text/text.h"
#include "muster/v1/host.pb.h"
#include "muster/v1/rendezvous.pb.h"

namespace muster {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;

// All that were ever given out: a new field is added, and what is here stays. "gone" was removed before this list
// began.
constexpr char kNumbers[] = R"(
Epoch: 1 uint64, 2 uint64
DirectiveId: 1 Epoch, 2 uint64
StatusId: 1 uint64, 2 uint64
RoundId: 1 uint64, 2 Epoch
Endpoint: 1 string, 2 uint32
Round: 1 RoundId, 2 int32, 3 int32, 4 int32, 5 int32, 6 Endpoint, 7 int32, 8 int32, 9 int64 list, 10 int32,
    11 int32, 12 int32, 13 int32, 14 int64 list, 15 int32, 16 int32, 17 int32, 18 int32, 19 string, 20 int32,
    21 Exclusion list, 22 int64, 23 PrimaryEnded, 24 string, 25 int32
PrimaryEnded: 1 int32, 2 Epoch, 3 int32, 4 int64
Exclusion: 1 string, 2 int64
Failure: 1 RoundId, 2 int32, 3 int32, 4 int32, 5 string, 6 int64, 7 int32, 8 int32, 9 bool, 10 bool, 11 int64,
    12 bool, 13 string, 14 string, 15 string, 16 int64, 17 string, 18 string, 19 Failure list, 20 int32,
    21 fixed64, 22 bool, 23 bool, 24 bool, 25 bool
Verdict: 1 int32, 2 string, 3 string, 4 Failure, 5 Failure list, 6 int32, 7 fixed64, 8 bool, 9 string,
    10 TimeSpent
TimeSpent: 1 int64, 2 int64, 3 int64, 4 int64, 5 int64, 6 int64, 7 int64, 8 int64, 9 int64, 10 uint64,
    11 int64, 12 int64
Whereabouts: 1 string, 2 string, 3 string, 4 string
Holder: 1 string, 2 string
HostProof: 1 bytes, 2 bytes
RankSnapshot: 1 int32, 2 int64, 3 bool, 4 string, 5 string, 6 string, 7 int32, 8 StackFrame list, 9 string,
    10 int64, 11 int32, 12 bool, 13 string
StackFrame: 1 string, 2 string, 3 int32
NodeSnapshot: 1 uint64, 2 RankSnapshot list
Event: 1 Epoch, 2 uint64, 3 int64, 4 string, 5 string, 6 bool, 7 uint64, 8 int32, 9 string, 10 int32, 11 Recovery, 12 int64, 13 int32
Recovery: 1 int64, 2 int64, 3 int64, 4 int64, 5 uint64, 6 int32, 7 string, 8 int64
StatusHead: 4 bytes, 5 bytes, 35 uint32
AgentStatus: 1 string, 2 string, 3 StatusId, 4 string, 5 string, 6 Whereabouts, 7 gone, 8 gone, 9 Role, 10 int32,
    11 bool, 12 int32, 13 int32, 14 int32, 15 string, 16 gone, 20 Epoch, 21 DirectiveId, 22 Phase, 23 int32,
    24 int64, 25 int64, 26 Round, 27 Outcome, 28 Failure, 29 Endpoint, 30 Verdict, 31 string, 32 string,
    33 bool, 34 Failure, 35 uint32, 36 bool, 37 bool, 38 string, 40 int64, 41 int64, 42 map of string,
    43 string, 44 HostProof, 45 int64, 46 NodeSnapshot, 47 int32, 48 int64, 49 int64 list, 50 int64 list,
    51 bool, 52 bool, 53 int64, 54 int64, 55 uint64, 56 int64 list, 57 int64, 58 NodeSnapshot, 59 Event list,
    60 SignalAnswer
Settings: 1 int32, 2 int32, 3 int32, 4 int32, 5 int64, 6 int64
Lease: 1 int64, 2 int64
Wait: 1 string, 2 string list, 3 int32, 4 gone, 5 int32, 6 Holder, 7 bool
Stop: 1 RoundId, 2 string, 3 int64
Release: 1 int32, 2 string
Refused: 1 int32, 2 string, 3 bool
Hang: 1 RoundId, 2 int32, 3 string, 4 bool
SignalOrder: 1 uint64, 2 RoundId, 3 int32, 4 int64 list, 5 string
SignalAnswer: 1 uint64, 2 int32
DirectiveHead: 6 uint32, 15 Refused
Directive: 1 DirectiveId, 2 StatusId, 3 Lease, 4 Settings, 5 Round, 6 uint32, 7 fixed64, 8 fixed64, 9 fixed64,
    10 Wait, 11 Round, 12 Stop, 13 Verdict, 14 Release, 15 Refused, 16 uint64, 17 Hang, 18 int64, 19 uint64,
    20 Event list, 21 int32, 22 SignalOrder, 23 string
AgentHello: 1 uint32, 2 string, 3 bytes list, 4 map of bytes, 5 string, 6 string, 7 int32, 8 gone, 9 bytes
HostHello: 1 string, 2 string, 3 int32, 4 int32, 5 gone, 6 HostChallenge
HostChallenge: 1 bytes, 2 bytes list
SidecarProof: 1 bytes
)";

using Numbers = std::map<std::string, std::map<int, std::string>>;  // by message and number: the type

Numbers Recorded() {
  Numbers all;
  std::string message;
  for (const absl::string_view line : absl::StrSplit(kNumbers, '\n', absl::SkipEmpty())) {
    absl::string_view fields = line;
    if (line.front() != ' ') {
      const std::pair<std::string, absl::string_view> parts = absl::StrSplit(line, absl::MaxSplits(": ", 1));
      message = parts.first;
      fields = parts.second;
    }
    for (const absl::string_view field : absl::StrSplit(fields, ',', absl::SkipWhitespace())) {
      const std::pair<std::string, std::string> parts =
          absl::StrSplit(absl::StripAsciiWhitespace(field), absl::MaxSplits(' ', 1));
      int number = 0;
      EXPECT_TRUE(absl::SimpleAtoi(parts.first, &number)) << line;
      all[message][number] = parts.second;
    }
  }
  return all;
}

std::string TypeOf(const FieldDescriptor& field) {
  if (field.is_map()) return absl::StrCat("map of ", field.message_type()->map_value()->type_name());
  std::string type = field.type_name();
  if (field.message_type() != nullptr) type = field.message_type()->name();
  if (field.enum_type() != nullptr) type = field.enum_type()->name();
  return absl::StrCat(type, field.is_repeated() ? " list" : "");
}

void Add(const Descriptor& message, Numbers* all) {
  for (int i = 0; i < message.field_count(); ++i) {
    (*all)[message.name()][message.field(i)->number()] = TypeOf(*message.field(i));
  }
  for (int i = 0; i < message.reserved_range_count(); ++i) {
    const Descriptor::ReservedRange& range = *message.reserved_range(i);
    for (int number = range.start; number < range.end; ++number) (*all)[message.name()][number] = "gone";
  }
}

Numbers InUse() {
  Numbers all;
  const auto& file = *v1::AgentStatus::descriptor()->file();
  for (int i = 0; i < file.message_type_count(); ++i) Add(*file.message_type(i), &all);
  for (const Descriptor* message : {v1::AgentHello::descriptor(), v1::HostHello::descriptor(),
                                    v1::HostChallenge::descriptor(), v1::SidecarProof::descriptor()}) {
    Add(*message, &all);
  }
  return all;
}

TEST(WireNumbers, NoNumberGetsAnotherType) {
  Numbers in_use = InUse();
  for (const auto& [message, numbers] : Recorded()) {
    if (!in_use.contains(message)) continue;  // it has been removed as a whole
    for (const auto& [number, type] : numbers) {
      const std::string now = in_use[message][number];
      EXPECT_TRUE(now == type || now == "gone") << message << "." << number << " was: " << type << ", is: " << now
                                                << "; take another number, and make this one `reserved`";
    }
  }
}

TEST(WireNumbers, NewNumbersAreRecorded) {
  Numbers recorded = Recorded();
  for (const auto& [message, numbers] : InUse()) {
    for (const auto& [number, type] : numbers) {
      EXPECT_NE(recorded[message][number], "") << "add to kNumbers: " << message << ": " << number << " " << type;
    }
  }
}

}  // namespace
}  // namespace muster
