// The most that a node may send: every text of a message as long as its range allows.
#pragma once

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/ranges.h"

namespace muster {

inline size_t LongestOf(const google::protobuf::FieldDescriptor& field) {
  const std::string name = field.full_name().substr(std::string("muster.v1.").size());
  const auto range =
      std::find_if(Ranges().begin(), Ranges().end(), [&](const Range& one) { return one.field == name; });
  return range == Ranges().end() ? 0 : static_cast<size_t>(range->most);
}

// Of the fields that are set, those that hold a text.
inline void Lengthen(google::protobuf::Message* message) {
  const google::protobuf::Reflection& reflection = *message->GetReflection();
  std::vector<const google::protobuf::FieldDescriptor*> fields;
  reflection.ListFields(*message, &fields);
  for (const google::protobuf::FieldDescriptor* field : fields) {
    if (field->is_repeated()) continue;
    if (field->cpp_type() == google::protobuf::FieldDescriptor::CPPTYPE_MESSAGE) {
      Lengthen(reflection.MutableMessage(message, field));
    } else if (field->cpp_type() == google::protobuf::FieldDescriptor::CPPTYPE_STRING) {
      std::string text = reflection.GetString(*message, field);
      text.resize(std::max(text.size(), LongestOf(*field)), 'x');
      reflection.SetString(message, field, text);
    }
  }
}

}  // namespace muster
