#include "base/ranges.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <algorithm>
#include <initializer_list>
#include <limits>
#include <unordered_map>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/check.h"
#include "base/ids.h"
#include "base/takeover.h"
#include "base/text.h"

namespace muster {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

constexpr int64_t kAnyInt64 = std::numeric_limits<int64_t>::max();
constexpr int64_t kMostNumber = static_cast<int64_t>(kMaxNumber);
const int64_t kMaxLeaseMs = absl::ToInt64Milliseconds(kMaxLease);
constexpr int64_t kMostSignal = 64;  // of Linux
constexpr int64_t kMostPort = 65'535;
constexpr int64_t kMostPid = int64_t{1} << 31;

constexpr absl::string_view kPackage = "muster.v1.";

std::string NameOf(const FieldDescriptor& field) { return field.full_name().substr(kPackage.size()); }

const FieldDescriptor* FieldCalled(const std::string& name) {
  return v1::AgentStatus::descriptor()->file()->pool()->FindFieldByName(absl::StrCat(kPackage, name));
}

// The number that is limited: a number itself, or the length of a text. None for messages, enums and booleans.
struct Value {
  bool is_limited = false;
  bool is_beyond = false;  // does not even fit into `number`
  int64_t number = 0;
};

Value FromUnsigned(uint64_t number) {
  const bool beyond = number > static_cast<uint64_t>(kAnyInt64);
  return {true, beyond, beyond ? kAnyInt64 : static_cast<int64_t>(number)};
}

Value Single(const Message& message, const Reflection& reflection, const FieldDescriptor* field) {
  std::string scratch;
  switch (field->cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      return {true, false, reflection.GetInt32(message, field)};
    case FieldDescriptor::CPPTYPE_INT64:
      return {true, false, reflection.GetInt64(message, field)};
    case FieldDescriptor::CPPTYPE_UINT32:
      return FromUnsigned(reflection.GetUInt32(message, field));
    case FieldDescriptor::CPPTYPE_UINT64:
      return FromUnsigned(reflection.GetUInt64(message, field));
    case FieldDescriptor::CPPTYPE_STRING:
      return FromUnsigned(reflection.GetStringReference(message, field, &scratch).size());
    default:
      return {};
  }
}

Value Repeated(const Message& message, const Reflection& reflection, const FieldDescriptor* field, int index) {
  std::string scratch;
  switch (field->cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      return {true, false, reflection.GetRepeatedInt32(message, field, index)};
    case FieldDescriptor::CPPTYPE_INT64:
      return {true, false, reflection.GetRepeatedInt64(message, field, index)};
    case FieldDescriptor::CPPTYPE_UINT32:
      return FromUnsigned(reflection.GetRepeatedUInt32(message, field, index));
    case FieldDescriptor::CPPTYPE_UINT64:
      return FromUnsigned(reflection.GetRepeatedUInt64(message, field, index));
    case FieldDescriptor::CPPTYPE_STRING:
      return FromUnsigned(reflection.GetRepeatedStringReference(message, field, index, &scratch).size());
    default:
      return {};
  }
}

// nullptr: the field has none.
const Range* RangeOf(const FieldDescriptor* field) {
  static const auto* const by_field = [] {
    auto* ranges = new std::unordered_map<const FieldDescriptor*, const Range*>;
    for (const Range& range : Ranges()) {
      const FieldDescriptor* const its = FieldCalled(range.field);
      MUSTER_CHECK(its != nullptr, "a range of a field that does not exist");
      ranges->emplace(its, &range);
    }
    return ranges;
  }();
  const auto range = by_field->find(field);
  return range == by_field->end() ? nullptr : range->second;
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

std::string CheckRepeated(const Message& message, const Reflection& reflection, const FieldDescriptor* field) {
  const Range* const range = RangeOf(field);
  const int times = reflection.FieldSize(message, field);
  if (range != nullptr && times > range->most_times) {
    return absl::StrCat(NameOf(*field), " occurs ", times, " times, not at most ", range->most_times);
  }
  for (int i = 0; i < times; ++i) {
    const Value value = Repeated(message, reflection, field, i);
    std::string found;
    if (value.is_limited && range != nullptr) found = Outside(*field, *range, value);
    if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
      found = Check(reflection.GetRepeatedMessage(message, field, i));
    }
    if (!found.empty()) return found;
  }
  return "";
}

std::string CheckField(const Message& message, const Reflection& reflection, const FieldDescriptor* field) {
  if (field->is_repeated()) return CheckRepeated(message, reflection, field);
  if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) return Check(reflection.GetMessage(message, field));
  const Range* const range = RangeOf(field);
  const Value value = Single(message, reflection, field);
  return value.is_limited && range != nullptr ? Outside(*field, *range, value) : "";
}

std::string Check(const Message& message) {
  const Reflection& reflection = *message.GetReflection();
  std::vector<const FieldDescriptor*> fields;
  reflection.ListFields(message, &fields);
  for (const FieldDescriptor* field : fields) {
    if (std::string found = CheckField(message, reflection, field); !found.empty()) return found;
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

const std::vector<Range>& Ranges() {
  static const auto* const ranges = new std::vector<Range>{
      {"Epoch.number", 0, kMostNumber},
      {"DirectiveId.seq", 0, kMostNumber},
      {"StatusId.agent_number", 0, kMostNumber},
      {"StatusId.seq", 0, kMostNumber},
      {"RoundId.number", 0, kMostNumber},
      {"Endpoint.host", 0, kMaxShortText},
      {"Endpoint.port", 0, kMostPort},

      {"Round.node_rank", 0, kMaxNodes - 1},
      {"Round.node_count", 0, kMaxNodes},
      {"Round.first_rank", 0, kMaxCount},
      {"Round.world_size", 0, kMaxCount},
      {"Round.restart_count", 0, kMaxCount},
      {"Round.failures", 0, kMaxCount},
      {"Round.loss_ages_ms", 0, kMaxAge, kMaxLossAges},
      {"Round.max_restarts", 0, kMaxCount},
      {"Round.seat", 0, kMaxNodes},
      {"Round.coordinator_rank", 0, kMaxNodes},
      {"Round.role_first_rank", 0, kMaxCount},
      {"Round.role_world_size", 0, kMaxCount},
      {"Round.failure_ages_ms", 0, kMaxAge, kMaxFailureAges},
      {"Round.fast_failures", 0, kMaxCount},
      {"Round.idle_failures", 0, kMaxCount},
      {"Round.idle_changes", 0, kMaxCount},
      {"Round.largest_node_count", 0, kMaxNodes},
      {"Round.culprit", 0, kMaxShortText},
      {"Round.culprit_streak", 0, kMaxCount},
      {"Round.excluded", 0, 0, static_cast<int64_t>(kMaxExcluded)},
      {"Round.age_ms", -kMaxAge, kMaxAge},
      {"PrimaryEnded.node_rank", 0, kMaxNodes - 1},
      {"PrimaryEnded.known_to", 0, kMaxNodes},
      {"PrimaryEnded.age_ms", 0, kMaxAge},
      {"Exclusion.host_id", 0, kMaxShortText},
      {"Exclusion.left_ms", -kMaxAge, kMaxAge},

      {"Failure.rank", 0, kMaxCount},
      {"Failure.local_rank", 0, kMaxSlots},
      {"Failure.node_rank", 0, kMaxNodes - 1},
      {"Failure.host", 0, kMaxShortText},
      {"Failure.pid", 0, kMostPid},
      {"Failure.exit_code", 0, 255},
      {"Failure.signal", 0, kMostSignal},
      {"Failure.age_ms", -kMaxAge, kMaxAge},
      {"Failure.error_text", 0, kMaxFailureText},
      {"Failure.callstack", 0, kMaxFailureText},
      {"Failure.error_file", 0, kMaxFailureText},
      {"Failure.wall_time_s", -kMaxAge / 1000, kMaxAge / 1000},
      {"Failure.last_output", 0, kMaxFailureText},
      {"Failure.hint", 0, kMaxFailureText},
      {"Failure.others", 0, 0, kMaxFailuresSent},
      {"Failure.more_others", 0, kMaxCount},

      {"Verdict.exit_code", 0, 255},
      {"Verdict.origin", 0, kMaxShortText},
      {"Verdict.reason", 0, kMaxLongText},
      {"Verdict.other_failures", 0, 0, kMaxFailuresSent},
      {"Verdict.more_failures", 0, kMaxCount},
      {"Verdict.closing_host", 0, kMaxShortText},

      {"Whereabouts.machine", 0, kMaxShortText},
      {"Whereabouts.container", 0, kMaxShortText},
      {"Whereabouts.user", 0, kMaxShortText},
      {"Whereabouts.process", 0, kMaxShortText},
      {"HostProof.public_key", 0, kMaxShortText},
      {"HostProof.signature", 0, kMaxShortText},

      {"RankPicture.local_rank", 0, kMaxSlots},
      {"RankPicture.pid", 0, kMostPid},
      {"RankPicture.program", 0, kMaxShortText},
      {"RankPicture.state", 0, kMaxShortText},
      {"RankPicture.waits_in", 0, kMaxShortText},
      {"RankPicture.threads", 0, kMaxCount},
      {"RankPicture.main_thread", 0, 0, kMaxFramesSent},
      {"RankPicture.missing", 0, kMaxShortText},
      {"RankPicture.idle_ms", 0, kMaxAge},
      {"RankPicture.busy_percent", 0, kMaxCount},
      {"StackFrame.function", 0, kMaxShortText},
      {"StackFrame.file", 0, kMaxShortText},
      {"StackFrame.line", 0, kMaxCount},
      {"NodePicture.number", 0, kMostNumber},
      {"NodePicture.ranks", 0, 0, kMaxRanksSent},

      {"AgentStatus.run_id", 0, kMaxLongText},
      {"AgentStatus.host_id", 0, kMaxShortText},
      {"AgentStatus.hostname", 0, kMaxShortText},
      {"AgentStatus.version", 0, kMaxShortText},
      {"AgentStatus.place", 0, kMaxNodes - 1},
      {"AgentStatus.min_nodes", 0, kMaxNodes},
      {"AgentStatus.max_nodes", 0, kMaxNodes},
      {"AgentStatus.slots", 0, kMaxSlots},
      {"AgentStatus.role_name", 0, kMaxShortText},
      {"AgentStatus.live_workers", 0, kMaxSlots},
      {"AgentStatus.in_job_ms", -kMaxAge, kMaxAge},
      {"AgentStatus.gathering_ms", -kMaxAge, kMaxAge},
      {"AgentStatus.predecessor_dead", 0, kMaxShortText},
      {"AgentStatus.trouble", 0, kMaxLongText},
      {"AgentStatus.preparing", 0, kMaxLongText},
      {"AgentStatus.host_gone_ms", -kMaxAge, kMaxAge},
      {"AgentStatus.how_host_ended", 0, kMaxLongText},
      {"AgentStatus.coordinator_silent_ms", -kMaxAge, kMaxAge},
      {"AgentStatus.quiet_ms", 0, kMaxAge},
      {"AgentStatus.signs", 0, kMaxCount},
      {"AgentStatus.learned_silence_ms", 0, kMaxAge},
      {"AgentStatus.step_rates", 0, kMaxCount, kMaxRanksSent},
      {"AgentStatus.touch_rates", 0, kMaxCount, kMaxRanksSent},
      {"AgentStatus.connect_ms", 0, kMaxAge},
      {"AgentStatus.verdict_age_ms", 0, kMaxAge},
      {"AgentStatus.facts", 0, 0, kMaxFactsSent},
      {"AgentStatus.FactsEntry.key", 0, kMaxLongText},
      {"AgentStatus.FactsEntry.value", 0, kMaxLongText},

      {"Settings.min_nodes", 0, kMaxNodes},
      {"Settings.max_nodes", 0, kMaxNodes},
      {"Settings.max_restarts", 0, kMaxCount},
      {"Settings.max_node_losses", 0, kMaxCount},
      {"Settings.beat_ms", 0, kMaxAge},
      {"Settings.lease_ms", 0, kMaxLeaseMs},
      {"Lease.duration_ms", 0, kMaxLeaseMs},
      {"Wait.reason", 0, kMaxLongText},
      {"Wait.absent", 0, kMaxLongText, kMaxAbsentSent},
      {"Wait.absent_count", 0, kMaxNodes},
      {"Wait.place_in_line", 0, kMaxNodes},
      {"Holder.hostname", 0, kMaxShortText},
      {"Holder.process", 0, kMaxShortText},
      {"Stop.cause", 0, kMaxLongText},
      {"Stop.grace_ms", 0, kMaxAge},
      {"Release.exit_code", 0, 255},
      {"Release.reason", 0, kMaxLongText},
      {"Refused.exit_code", 0, 255},
      {"Refused.reason", 0, kMaxLongText},
      {"Hang.rank", 0, kMaxCount},
      {"Hang.why", 0, kMaxLongText},
      {"Directive.picture", 0, kMostNumber},
      {"Directive.learned_silence_ms", 0, kMaxAge},
  };
  return *ranges;
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
                  TooLarge("AgentStatus.picture", status.picture(), kMaxPictureBytes),
                  TooLarge("AgentStatus.verdict", status.verdict(), kMaxVerdictBytes)});
}

std::string OutOfRange(const v1::Directive& directive) {
  if (std::string found = Check(directive); !found.empty()) return found;
  return TooLarge("Directive.verdict", directive.verdict(), kMaxVerdictBytes);
}

}  // namespace muster
