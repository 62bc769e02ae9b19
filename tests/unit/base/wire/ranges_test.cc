#include "base/wire/ranges.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "muster/v1/bounds.pb.h"

namespace muster {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

// The way from a status or a directive to a field, through the messages that contain it.
using Way = std::vector<const FieldDescriptor*>;

// Every field of a message and of all that is in it, each message within it by one way.
void Walk(const Descriptor& type, const Way& way, std::set<const Descriptor*>* seen,
          const std::function<void(const Way&)>& visit) {
  if (!seen->insert(&type).second) return;
  for (int i = 0; i < type.field_count(); ++i) {
    Way on = way;
    on.push_back(type.field(i));
    visit(on);
    if (on.back()->message_type() != nullptr) Walk(*on.back()->message_type(), on, seen, visit);
  }
}

std::vector<Way> AllFields() {
  std::vector<Way> all;
  for (const Descriptor* type : {v1::AgentStatus::descriptor(), v1::Directive::descriptor()}) {
    std::set<const Descriptor*> seen;
    Walk(*type, {}, &seen, [&](const Way& way) { all.push_back(way); });
  }
  return all;
}

std::string NameOf(const FieldDescriptor& field) { return field.full_name().substr(sizeof("muster.v1.") - 1); }

bool IsNumber(const FieldDescriptor& field) {
  return field.cpp_type() == FieldDescriptor::CPPTYPE_INT32 ||
         field.cpp_type() == FieldDescriptor::CPPTYPE_INT64 ||
         field.cpp_type() == FieldDescriptor::CPPTYPE_UINT32 ||
         field.cpp_type() == FieldDescriptor::CPPTYPE_UINT64;
}

bool IsText(const FieldDescriptor& field) { return field.cpp_type() == FieldDescriptor::CPPTYPE_STRING; }

Message* Enter(Message* message, const FieldDescriptor* field) {
  const auto* reflection = message->GetReflection();
  if (!field->is_repeated()) return reflection->MutableMessage(message, field);
  return reflection->AddMessage(message, field);
}

template <typename Number>
void SetNumber(Message* at, const FieldDescriptor* field, Number value) {
  const auto* r = at->GetReflection();
  const bool many = field->is_repeated();
  switch (field->cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      return many ? r->AddInt32(at, field, static_cast<int32_t>(value))
                  : r->SetInt32(at, field, static_cast<int32_t>(value));
    case FieldDescriptor::CPPTYPE_INT64:
      return many ? r->AddInt64(at, field, value) : r->SetInt64(at, field, value);
    case FieldDescriptor::CPPTYPE_UINT32:
      return r->SetUInt32(at, field, static_cast<uint32_t>(value));
    default:
      return r->SetUInt64(at, field, static_cast<uint64_t>(value));
  }
}

// What is said of the message where the way begins, once `fill` has changed the one where it ends.
std::string SaidOf(const Way& way, const std::function<void(Message*)>& fill) {
  v1::AgentStatus status;
  v1::Directive directive;
  const bool is_status = way.front()->containing_type() == v1::AgentStatus::descriptor();
  Message* at = is_status ? static_cast<Message*>(&status) : &directive;
  for (size_t i = 0; i + 1 < way.size(); ++i) at = Enter(at, way[i]);
  fill(at);
  return is_status ? OutOfRange(status) : OutOfRange(directive);
}

// With this field alone: set to the number, or to a text of that length.
std::string Said(const Way& way, int64_t value) {
  const FieldDescriptor* const field = way.back();
  return SaidOf(way, [&](Message* at) {
    if (IsNumber(*field)) return SetNumber(at, field, value);
    const std::string text(static_cast<size_t>(value), 'x');
    if (field->is_repeated()) return at->GetReflection()->AddString(at, field, text);
    at->GetReflection()->SetString(at, field, text);
  });
}

std::string SaidOfTimes(const Way& way, int64_t times) {
  const FieldDescriptor* const field = way.back();
  return SaidOf(way, [&](Message* at) {
    for (int64_t i = 0; i < times; ++i) {
      if (IsNumber(*field)) {
        SetNumber(at, field, int64_t{0});
      } else if (IsText(*field)) {
        at->GetReflection()->AddString(at, field, "");
      } else {
        Enter(at, field);
      }
    }
  });
}

TEST(Ranges, EveryNumberAndTextThatIsSentHasOne) {
  for (const Way& way : AllFields()) {
    const FieldDescriptor& field = *way.back();
    const bool needs_one = IsNumber(field) || IsText(field) || field.is_repeated();
    const bool in_map = field.containing_type()->options().map_entry();  // cannot name one: RangeOf has it
    if (needs_one && !in_map) {
      EXPECT_NE(field.options().GetExtension(v1::bound), v1::UNBOUND) << NameOf(field) << ": its bound is missing";
    }
  }
}

TEST(Ranges, AValueAtAnEdgeIsTakenAndOneBeyondItIsNamed) {
  int edges = 0;
  for (const Way& way : AllFields()) {
    const FieldDescriptor& field = *way.back();
    const Range range = RangeOf(field);
    if (!range.is_limited || !(IsNumber(field) || IsText(field))) continue;
    EXPECT_EQ(Said(way, range.most), "") << NameOf(field);
    EXPECT_EQ(Said(way, range.most + 1).find(NameOf(field)), 0u) << NameOf(field);
    edges += 2;
    const bool has_sign =
        field.cpp_type() == FieldDescriptor::CPPTYPE_INT32 || field.cpp_type() == FieldDescriptor::CPPTYPE_INT64;
    if (!has_sign) continue;
    EXPECT_EQ(Said(way, range.least), "") << NameOf(field);
    EXPECT_EQ(Said(way, range.least - 1).find(NameOf(field)), 0u) << NameOf(field);
    edges += 2;
  }
  EXPECT_GT(edges, 200) << "the fields were not found";
}

TEST(Ranges, AFieldMayOnlyOccurSoOften) {
  int fields = 0;
  for (const Way& way : AllFields()) {
    const FieldDescriptor& field = *way.back();
    const Range range = RangeOf(field);
    if (!field.is_repeated() || field.is_map()) continue;
    EXPECT_EQ(SaidOfTimes(way, range.most_times), "") << NameOf(field);
    EXPECT_EQ(SaidOfTimes(way, range.most_times + 1).find(NameOf(field)), 0u) << NameOf(field);
    ++fields;
  }
  EXPECT_GE(fields, 5);
}

TEST(Ranges, ANumberThatNoSignedOneHoldsIsOutOfRange) {
  v1::AgentStatus status;
  status.mutable_id()->set_seq(~uint64_t{0});
  EXPECT_EQ(OutOfRange(status), "StatusId.seq is 9223372036854775807 or more, not 0 to 4611686018427387904");
}

// A failure with so many bytes, though none of its texts is too long.
v1::Failure FailureOf(size_t bytes) {
  v1::Failure failure;
  while (failure.ByteSizeLong() < bytes) {
    v1::Failure* const other = failure.add_others();
    const size_t left = bytes - failure.ByteSizeLong();
    other->set_error_text(std::string(std::min<size_t>(left, kMaxFailureText), 'x'));
    if (failure.ByteSizeLong() > bytes) {
      const size_t excess = failure.ByteSizeLong() - bytes;
      other->mutable_error_text()->resize(other->error_text().size() - excess);
    }
    if (failure.others_size() == kMaxFailuresSent) break;
  }
  return failure;
}

TEST(Ranges, AFailureOrVerdictMayNotBeTooLargeAsAWhole) {
  v1::AgentStatus good, bad;
  *good.mutable_failure() = FailureOf(kMaxFailureBytes);
  ASSERT_EQ(good.failure().ByteSizeLong(), kMaxFailureBytes);
  EXPECT_EQ(OutOfRange(good), "");
  *bad.mutable_failure() = FailureOf(kMaxFailureBytes + 1);
  EXPECT_EQ(OutOfRange(bad), "AgentStatus.failure has 131073 bytes, not at most 131072");
  bad.Clear();
  *bad.mutable_cannot_start() = FailureOf(kMaxFailureBytes + 1);
  EXPECT_EQ(OutOfRange(bad), "AgentStatus.cannot_start has 131073 bytes, not at most 131072");
  bad.Clear();
  bad.mutable_verdict()->set_reason(std::string(kMaxLongText, 'x'));
  for (int i = 0; i < 3; ++i) *bad.mutable_verdict()->add_other_failures() = FailureOf(kMaxFailureBytes);
  EXPECT_EQ(OutOfRange(bad).find("AgentStatus.verdict has "), 0u) << OutOfRange(bad);
}

// An agent stores it, and repeats it with all else that it reports.
TEST(Ranges, AVerdictOfADirectiveMayNotBeTooLargeAsAWhole) {
  v1::Directive directive;
  directive.mutable_verdict()->set_reason(std::string(kMaxLongText, 'x'));
  EXPECT_EQ(OutOfRange(directive), "");
  for (int i = 0; i < 3; ++i) *directive.mutable_verdict()->add_other_failures() = FailureOf(kMaxFailureBytes);
  EXPECT_EQ(OutOfRange(directive).find("Directive.verdict has "), 0u) << OutOfRange(directive);
}

TEST(Ranges, FactsMayNotBeTooMany) {
  v1::AgentStatus status;
  for (int64_t i = 0; i < kMaxFactsSent; ++i) (*status.mutable_facts())[std::to_string(i)] = "";
  EXPECT_EQ(OutOfRange(status), "");
  (*status.mutable_facts())["one more"] = "";
  EXPECT_EQ(OutOfRange(status), "AgentStatus.facts occurs 1025 times, not at most 1024");
}

}  // namespace
}  // namespace muster
