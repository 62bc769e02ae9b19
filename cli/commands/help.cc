#include "cli/commands/help.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/status_macros.h"
#include "cli/commands/platform_defaults.h"

namespace muster::cli {
namespace {

constexpr size_t kTextColumn = 30;

// Appends an option or a variable, and its help text in the column for texts.
void AppendRow(const std::string& head, std::string_view text, std::string* out) {
  out->append(head);
  if (text.empty()) {
    out->push_back('\n');
    return;
  }
  // If the head leaves no blank before the text column, the text begins on the next line.
  AppendWrapped(text, kTextColumn, head.size() + 1 > kTextColumn ? kTextColumn + 1 : head.size(), out);
}

}  // namespace

void AppendWrapped(std::string_view text, size_t column, size_t at, std::string* out) {
  const auto indent = [&] {
    out->append(column - at, ' ');
    at = column;
  };
  if (at > column) {
    out->push_back('\n');
    at = 0;
  }
  indent();
  bool first = true;
  for (const absl::string_view word : absl::StrSplit(AsAbsl(text), ' ', absl::SkipEmpty())) {
    if (!first && at + 1 + word.size() > kHelpColumns) {
      out->push_back('\n');
      at = 0;
      indent();
      first = true;
    }
    if (!first) {
      out->push_back(' ');
      ++at;
    }
    out->append(AsStd(word));
    at += word.size();
    first = false;
  }
  out->push_back('\n');
}

void AppendGroup(const std::vector<OptionSpec>& table, Group group, const char* title, std::string* out) {
  absl::StrAppend(out, "\n", title, ":\n");
  for (const OptionSpec& spec : table) {
    if (spec.group != group) continue;
    std::string head = "  ";
    if (spec.shorthand != 0) absl::StrAppend(&head, "-", std::string(1, spec.shorthand), ", ");
    absl::StrAppend(&head, "--", AsAbsl(spec.name));
    if (!spec.is_switch()) absl::StrAppend(&head, " ", AsAbsl(spec.value));
    std::string text = WithPlatformDefaults(spec.help);
    if (!spec.reader.fallback.empty()) absl::StrAppend(&text, " Default: ", AsAbsl(spec.reader.fallback), ".");
    AppendRow(head, text, out);
  }
}

void AppendVariables(std::string* out) {
  out->append("\nVariables without an option:\n");
  for (const VariableSpec& variable : OwnVariables()) {
    AppendRow(absl::StrCat("  MUSTER_", AsAbsl(variable.name)), variable.help, out);
  }
}

}  // namespace muster::cli
