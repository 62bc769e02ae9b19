#include "rendezvous/transport/received_status.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/wire_format_lite.h>

#include <algorithm>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "base/core/status_macros.h"
#include "base/text/text.h"
#include "base/wire/ids.h"

namespace muster::rendezvous {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::internal::WireFormatLite;
using google::protobuf::io::CodedInputStream;

constexpr char kMoreFollows = '\x80';  // bit of each byte of a varint but its last

absl::Status NoStatus() { return absl::InvalidArgumentError("it sent something that is no status"); }

// Walks over the fields of a message without building anything.
class FieldCounter {
 public:
  explicit FieldCounter(std::string_view bytes)
      : bytes_(bytes), in_(reinterpret_cast<const uint8_t*>(bytes.data()), static_cast<int>(bytes.size())) {}

  absl::Status Count(const Descriptor* message, int depth) {
    if (depth > kMaxStatusNesting) {
      return absl::ResourceExhaustedError(
          absl::StrCat("it sent a status with more than ", kMaxStatusNesting, " messages within each other"));
    }
    while (const uint32_t tag = in_.ReadTagNoLastTag()) {
      RETURN_IF_ERROR(Add(1));
      const FieldDescriptor* const field = message->FindFieldByNumber(WireFormatLite::GetTagFieldNumber(tag));
      const WireFormatLite::WireType type = WireFormatLite::GetTagWireType(tag);
      has_unknown_ |= field == nullptr || !Fits(*field, type);
      RETURN_IF_ERROR(CountField(field, type, depth));
    }
    return in_.ConsumedEntireMessage() ? absl::OkStatus() : NoStatus();
  }

  // Whether there are fields that the parser keeps unread: of another version, or of another type.
  bool has_unknown() const { return has_unknown_; }

 private:
  static bool Fits(const FieldDescriptor& field, WireFormatLite::WireType type) {
    const auto own = WireFormatLite::WireTypeForFieldType(static_cast<WireFormatLite::FieldType>(field.type()));
    return type == own || (field.is_packable() && type == WireFormatLite::WIRETYPE_LENGTH_DELIMITED);
  }

  // field: null: not known.
  absl::Status CountField(const FieldDescriptor* field, WireFormatLite::WireType type, int depth) {
    switch (type) {
      case WireFormatLite::WIRETYPE_VARINT: {
        uint64_t value = 0;
        return in_.ReadVarint64(&value) ? absl::OkStatus() : NoStatus();
      }
      case WireFormatLite::WIRETYPE_FIXED64: {
        uint64_t value = 0;
        return in_.ReadLittleEndian64(&value) ? absl::OkStatus() : NoStatus();
      }
      case WireFormatLite::WIRETYPE_FIXED32: {
        uint32_t value = 0;
        return in_.ReadLittleEndian32(&value) ? absl::OkStatus() : NoStatus();
      }
      case WireFormatLite::WIRETYPE_LENGTH_DELIMITED:
        return CountDelimited(field, depth);
      default:
        return NoStatus();  // groups: no message of ours has any, and the parser keeps them with all their fields
    }
  }

  absl::Status CountDelimited(const FieldDescriptor* field, int depth) {
    int size = 0;
    if (!in_.ReadVarintSizeAsInt(&size) || static_cast<size_t>(size) > Left()) return NoStatus();
    if (field != nullptr && field->type() == FieldDescriptor::TYPE_MESSAGE) {
      const CodedInputStream::Limit outer = in_.PushLimit(size);
      RETURN_IF_ERROR(Count(field->message_type(), depth + 1));
      in_.PopLimit(outer);
      return absl::OkStatus();
    }
    if (field != nullptr && field->is_packable()) RETURN_IF_ERROR(Add(ElementsIn(field->type(), size)));
    return in_.Skip(size) ? absl::OkStatus() : NoStatus();
  }

  // The elements of a list of numbers that has this size and begins here.
  size_t ElementsIn(FieldDescriptor::Type type, int size) const {
    switch (WireFormatLite::WireTypeForFieldType(static_cast<WireFormatLite::FieldType>(type))) {
      case WireFormatLite::WIRETYPE_FIXED64:
        return static_cast<size_t>(size) / sizeof(uint64_t);
      case WireFormatLite::WIRETYPE_FIXED32:
        return static_cast<size_t>(size) / sizeof(uint32_t);
      default:
        break;
    }
    const std::string_view list =
        bytes_.substr(static_cast<size_t>(in_.CurrentPosition()), static_cast<size_t>(size));
    return static_cast<size_t>(
        std::count_if(list.begin(), list.end(), [](char byte) { return (byte & kMoreFollows) == 0; }));
  }

  size_t Left() const { return bytes_.size() - static_cast<size_t>(in_.CurrentPosition()); }

  absl::Status Add(size_t fields) {
    fields_ += fields;
    if (fields_ <= kMaxStatusFields) return absl::OkStatus();
    return absl::ResourceExhaustedError(
        absl::StrCat("it sent a status of more than ", kMaxStatusFields, " fields"));
  }

  const std::string_view bytes_;
  CodedInputStream in_;
  size_t fields_ = 0;
  bool has_unknown_ = false;
};

template <typename Message>
absl::StatusOr<Message> Read(std::string_view bytes) {
  if (bytes.size() > INT32_MAX) return NoStatus();
  FieldCounter counter(bytes);
  RETURN_IF_ERROR(counter.Count(Message::descriptor(), 1));
  Message message;
  if (!message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) return NoStatus();
  if (counter.has_unknown()) message.DiscardUnknownFields();  // the coordinator stores statuses
  return message;
}

}  // namespace

absl::StatusOr<v1::AgentStatus> ReadStatus(std::string_view bytes) {
  ASSIGN_OR_RETURN(const v1::StatusHead head, Read<v1::StatusHead>(bytes));
  if (head.protocol() == kProtocol) return Read<v1::AgentStatus>(bytes);
  v1::AgentStatus foreign;
  foreign.set_protocol(head.protocol());
  foreign.set_hostname(OneLine(head.hostname()));
  foreign.set_version(OneLine(head.version()));
  return foreign;
}

}  // namespace muster::rendezvous
