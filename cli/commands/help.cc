#include "cli/commands/help.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "agent/platform/discovery/sources.h"
#include "base/core/status_macros.h"
#include "base/text/duration.h"
#include "cli/commands/platform_defaults.h"
#include "cli/options/option_table.h"
#include "cli/options/values.h"

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
  // If the head leaves fewer than two blanks before the text column, the text begins on the next line.
  AppendWrapped(text, kTextColumn, head.size() + 2 > kTextColumn ? kTextColumn + 1 : head.size(), out);
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

std::string HelpOf(const OptionSpec& spec) {
  constexpr char kDefault[] = "Default: ";
  const std::string text = WithPlatformDefaults(spec.help);
  const size_t at = std::min(text.find(kDefault), text.size());
  std::vector<absl::string_view> parts = {absl::string_view(text).substr(0, at), spec.reader.limits,
                                          absl::string_view(text).substr(at)};
  const std::string fallback = absl::StrCat(kDefault, AsAbsl(spec.reader.fallback), ".");
  if (!spec.reader.fallback.empty()) parts.emplace_back(fallback);
  for (absl::string_view& part : parts) part = absl::StripAsciiWhitespace(part);
  parts.erase(std::remove(parts.begin(), parts.end(), ""), parts.end());
  return absl::StrJoin(parts, " ");
}

void AppendGroup(const std::vector<OptionSpec>& table, Group group, const char* title, std::string* out) {
  absl::StrAppend(out, "\n", title, ":\n");
  for (const OptionSpec& spec : table) {
    if (spec.group != group) continue;
    std::string head = "  ";
    if (spec.shorthand != 0) absl::StrAppend(&head, "-", std::string(1, spec.shorthand), ", ");
    absl::StrAppend(&head, "--", AsAbsl(spec.name));
    if (!spec.is_switch()) absl::StrAppend(&head, " ", AsAbsl(spec.value));
    AppendRow(head, HelpOf(spec), out);
  }
}

void AppendTimeSyntax(std::string* out) {
  out->push_back('\n');
  AppendWrapped(
      absl::StrCat("A TIME is in seconds, or has a unit: 500ms, 20s, 5m, 1h. It is at most ",
                   muster::FormatDuration(kTimes.most), ", and may be 0 unless the option says otherwise."),
      0, 0, out);
}

void AppendSources(std::string* out) {
  out->push_back('\n');
  AppendWrapped(
      "Sources (for --source), in the order in which they are tried; in parentheses the variable or file by which "
      "each is recognized:",
      0, 0, out);
  for (const discovery::Source& source : discovery::Sources()) {
    const bool same = source.shown_as == std::string_view(source.evidence);
    AppendRow(absl::StrCat("  ", source.name),
              same ? source.shown_as : absl::StrCat(source.shown_as, " (", source.evidence, ")"), out);
  }
}

void AppendVariables(std::string* out) {
  out->append("\nVariables without an option:\n");
  for (const VariableSpec& variable : OwnVariables()) {
    AppendRow(absl::StrCat("  MUSTER_", AsAbsl(variable.name)), variable.help, out);
  }
}

}  // namespace muster::cli
