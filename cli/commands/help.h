// The parts that help texts are made of. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cli/options/option_table.h"

namespace muster::cli {

inline constexpr size_t kHelpColumns = 80;

// Titles of groups that several commands have.
inline constexpr char kMembershipTitle[] = "Membership";
inline constexpr char kRestartsTitle[] = "Restart policy";
inline constexpr char kTimesTitle[] = "Timeouts";

// Appends `text`, broken into lines that begin at `column`. The current line of `*out` is `at` columns long; the
// text continues on it if `at` is not beyond `column`.
void AppendWrapped(std::string_view text, size_t column, size_t at, std::string* out);

// The help text of an option on one line: what it is, its limits, its default.
std::string HelpOf(const OptionSpec& spec);

// Appends the title and the table's options of the group, each with its help text.
void AppendGroup(const std::vector<OptionSpec>& table, Group group, const char* title, std::string* out);

// Appends a paragraph on how a TIME is written, and its limits unless an option has others.
void AppendTimeSyntax(std::string* out);

// Appends the names that --source accepts, with their meaning.
void AppendSources(std::string* out);

// Appends the variables of muster that have no option.
void AppendVariables(std::string* out);

}  // namespace muster::cli
