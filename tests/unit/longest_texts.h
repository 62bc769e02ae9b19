// The most that a node may send: every text of a message as long as its range allows.
#pragma once

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/wire/ranges.h"

namespace muster {

// The fields that are set and hold a text.
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
      text.resize(std::max(text.size(), static_cast<size_t>(RangeOf(*field).most)), 'x');
      reflection.SetString(message, field, text);
    }
  }
}

}  // namespace muster
