#include "cli/options/option_spec.h"

namespace muster::cli {

const OptionSpec* FindOption(const std::vector<OptionSpec>& table, std::string_view name) {
  for (const OptionSpec& spec : table) {
    if (spec.name == name) return &spec;
  }
  return nullptr;
}

std::string VariableName(std::string_view prefix, std::string_view option) {
  std::string name(prefix);
  for (const char c : option) {
    name += c == '-' ? '_' : (c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c);
  }
  return name;
}

}  // namespace muster::cli
