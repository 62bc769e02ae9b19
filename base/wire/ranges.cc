#include "base/wire/ranges.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <algorithm>
#include <initializer_list>
#include <limits>
#include <unordered_map>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/text/text.h"
#include "base/wire/ids.h"
#include "base/wire/takeover.h"
#include "muster/v1/bounds.pb.h"

namespace muster {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

constexpr int64_t kAnyInt64 = std::numeric_limits<int64_t>::max();
constexpr int64_t kMostNumber = static_cast<int64_t>(kMaxNumber);
constexpr int64_t kMostPort = 65'535;
constexpr int64_t kMostPid = int64_t{1} << 31;

constexpr absl::string_view kPackage = "muster.v1.";

std::string NameOf(const FieldDescriptor& field) { return field.full_name().substr(kPackage.size()); }

Range ForBound(v1::Bound bound) {
  switch (bound) {
    case v1::NUMBER:
      return {0, kMostNumber};
    case v1::COUNT:
      return {0, kMaxCount};
    case v1::NODES:
      return {0, kMaxNodes};
    case v1::NODE_RANK:
      return {0, kMaxNodes - 1};
    case v1::SLOTS:
      return {0, kMaxSlots};
    case v1::PORT:
      return {0, kMostPort};
    case v1::PID:
      return {0, kMostPid};
    case v1::EXIT_CODE:
      return {0, kMaxExitCode};
    case v1::SIGNAL:
      return {0, kMaxSignal};
    case v1::AGE:
      return {0, kMaxAge};
    case v1::TIME:
      return {-kMaxAge, kMaxAge};
    case v1::WALL_TIME:
      return {-kMaxAge / 1000, kMaxAge / 1000};
    case v1::LEASE:
      return {0, absl::ToInt64Milliseconds(kMaxLease)};
    case v1::NAME:
      return {0, kMaxShortText};
    case v1::TEXT:
      return {0, kMaxLongText};
    case v1::FAILURE_TEXT:
      return {0, kMaxFailureText};
    case v1::LOSS_AGES:
      return {0, kMaxAge, kMaxLossAges};
    case v1::FAILURE_AGES:
      return {0, kMaxAge, kMaxFailureAges};
    case v1::RATES:
      return {0, kMaxCount, kMaxRanksSent};
    case v1::LOCAL_RANKS:
      return {0, kMaxSlots, kMaxRanksSent};
    case v1::STEPS:
      return {0, kMaxStep, kMaxRanksSent};
    case v1::ABSENT:
      return {0, kMaxLongText, kMaxAbsentSent};
    case v1::EXCLUSIONS:
      return {0, 0, static_cast<int64_t>(kMaxExcluded)};
    case v1::FAILURES:
      return {0, 0, kMaxFailuresSent};
    case v1::FRAMES:
      return {0, 0, kMaxFramesSent};
    case v1::RANKS:
      return {0, 0, kMaxRanksSent};
    case v1::EVENTS:
      return {0, 0, kMaxEventsSent};
    case v1::FACTS:
      return {0, kMaxLongText, kMaxFactsSent};
    default:  // ANY; a test finds a field without a bound
      return {-kAnyInt64 - 1, kAnyInt64, kAnyInt64, false};
  }
}

// A number itself, or the length of a text.
struct Value {
  int64_t number = 0;
  bool is_beyond = false;  // does not even fit into `number`
};

Value FromUnsigned(uint64_t number) {
  const bool beyond = number > static_cast<uint64_t>(kAnyInt64);
  return {beyond ? kAnyInt64 : static_cast<int64_t>(number), beyond};
}

Value Single(const Message& message, const Reflection& reflection, const FieldDescriptor* field) {
  std::string scratch;
  switch (field->cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      return {reflection.GetInt32(message, field)};
    case FieldDescriptor::CPPTYPE_INT64:
      return {reflection.GetInt64(message, field)};
    case FieldDescriptor::CPPTYPE_UINT32:
      return FromUnsigned(reflection.GetUInt32(message, field));
    case FieldDescriptor::CPPTYPE_UINT64:
      return FromUnsigned(reflection.GetUInt64(message, field));
    default:
      return FromUnsigned(reflection.GetStringReference(message, field, &scratch).size());
  }
}

Value Repeated(const Message& message, const Reflection& reflection, const FieldDescriptor* field, int index) {
  std::string scratch;
  if (field->cpp_type() == FieldDescriptor::CPPTYPE_INT64)
    return {reflection.GetRepeatedInt64(message, field, index)};
  return FromUnsigned(reflection.GetRepeatedStringReference(message, field, index, &scratch).size());
}

// What is to be checked of messages of one type.
struct Checked {
  const FieldDescriptor* field;
  Range range;
  bool is_message;
};
using Fields = std::vector<Checked>;

Fields FieldsOf(const Descriptor& type) {
  Fields fields;
  for (int i = 0; i < type.field_count(); ++i) {
    const FieldDescriptor* const field = type.field(i);
    const Range range = RangeOf(*field);
    const bool is_message = field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE;
    if (is_message || range.is_limited) fields.push_back({field, range, is_message});
  }
  return fields;
}

// By type, computed once: each status and each directive is checked.
const Fields& FieldsToCheck(const Descriptor* type) {
  static const auto* const by_type = [] {
    auto* types = new std::unordered_map<const Descriptor*, Fields>;
    const auto* const file = v1::AgentStatus::descriptor()->file();
    for (int i = 0; i < file->message_type_count(); ++i) {
      const Descriptor* const message = file->message_type(i);
      types->emplace(message, FieldsOf(*message));
      for (int j = 0; j < message->nested_type_count(); ++j)
        types->emplace(message->nested_type(j), FieldsOf(*message->nested_type(j)));
    }
    return types;
  }();
  return by_type->at(type);
}

std::string Outside(const FieldDescriptor& field, const Range& range, const Value& value) {
  if (!value.is_beyond && value.number >= range.least && value.number <= range.most) return "";
  if (field.cpp_type() == FieldDescriptor::CPPTYPE_STRING) {
    return absl::StrCat(NameOf(field), " has ", value.number, " bytes, not at most ", range.most);
  }
  return absl::StrCat(NameOf(field), " is ", value.number, value.is_beyond ? " or more" : "", ", not ",
                      range.least, " to ", range.most);
}

std::string Check(const Message& message);

std::string CheckRepeated(const Message& message, const Reflection& reflection, const Checked& checked) {
  const FieldDescriptor* const field = checked.field;
  const int times = reflection.FieldSize(message, field);
  if (times > checked.range.most_times) {
    return absl::StrCat(NameOf(*field), " occurs ", times, " times, not at most ", checked.range.most_times);
  }
  for (int i = 0; i < times; ++i) {
    std::string found = checked.is_message
                            ? Check(reflection.GetRepeatedMessage(message, field, i))
                            : Outside(*field, checked.range, Repeated(message, reflection, field, i));
    if (!found.empty()) return found;
  }
  return "";
}

std::string Check(const Message& message) {
  const Reflection& reflection = *message.GetReflection();
  for (const Checked& checked : FieldsToCheck(message.GetDescriptor())) {
    const FieldDescriptor* const field = checked.field;
    std::string found;
    if (field->is_repeated()) {
      found = CheckRepeated(message, reflection, checked);
    } else if (!checked.is_message) {
      found = Outside(*field, checked.range, Single(message, reflection, field));
    } else if (reflection.HasField(message, field)) {
      found = Check(reflection.GetMessage(message, field));
    }
    if (!found.empty()) return found;
  }
  return "";
}

// Many small texts can make a large message.
std::string TooLarge(const char* what, const Message& message, size_t most) {
  const size_t bytes = message.ByteSizeLong();
  return bytes <= most ? "" : absl::StrCat(what, " has ", bytes, " bytes, not at most ", most);
}

std::string FirstOf(std::initializer_list<std::string> found) {
  const auto first = std::find_if(found.begin(), found.end(), [](const std::string& one) { return !one.empty(); });
  return first == found.end() ? "" : *first;
}

}  // namespace

Range RangeOf(const FieldDescriptor& field) {
  if (field.containing_type()->options().map_entry()) return ForBound(v1::TEXT);  // has no options of its own
  return ForBound(field.options().GetExtension(v1::bound));
}

std::string WhyImpossible(const v1::Round& round) {
  const v1::PrimaryEnded& ended = round.primary_ended();
  if (round.has_primary_ended() && (ended.node_rank() >= round.node_count() || ended.known_to() < 1)) {
    return "the farewell is of no member of the round, or was told to nobody";
  }
  const bool is_none = round.node_count() < 1 || round.node_rank() >= round.node_count();
  if (IsSet(round.id()) && is_none) return "a round without members, or a rank beyond them";
  return IsHostText(round.master().host()) ? "" : "an address with characters that none has";
}

int64_t WireMilliseconds(absl::Duration time) {
  return std::clamp(absl::ToInt64Milliseconds(time), -kMaxAge, kMaxAge);
}

std::string OutOfRange(const v1::AgentStatus& status) {
  if (std::string found = Check(status); !found.empty()) return found;
  return FirstOf({TooLarge("AgentStatus.failure", status.failure(), kMaxFailureBytes),
                  TooLarge("AgentStatus.cannot_start", status.cannot_start(), kMaxFailureBytes),
                  TooLarge("AgentStatus.snapshot", status.snapshot(), kMaxSnapshotBytes),
                  TooLarge("AgentStatus.stacks", status.stacks(), kMaxSnapshotBytes),
                  TooLarge("AgentStatus.verdict", status.verdict(), kMaxVerdictBytes)});
}

std::string OutOfRange(const v1::Directive& directive) {
  if (std::string found = Check(directive); !found.empty()) return found;
  return TooLarge("Directive.verdict", directive.verdict(), kMaxVerdictBytes);
}

}  // namespace muster
