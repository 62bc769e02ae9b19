#include "cli/command_line.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>

#include "absl/strings/str_cat.h"
#include "proto/base/status_macros.h"

namespace muster::cli {
namespace {

// "-m,--no-python,--no_python"
std::string Spellings(const OptionSpec& spec) {
  std::string with_underscores(spec.name);
  std::replace(with_underscores.begin(), with_underscores.end(), '-', '_');
  std::string names = absl::StrCat("--", AsAbsl(spec.name));
  if (with_underscores != spec.name) absl::StrAppend(&names, ",--", with_underscores);
  if (spec.shorthand != 0) absl::StrAppend(&names, ",-", std::string(1, spec.shorthand));
  return names;
}

// The words that follow our options. `--` before the script is ours; after it, the script's.
absl::Status TakeScript(std::vector<std::string> words, CommandLine* result) {
  bool marked = false;
  if (!words.empty() && words.front() == "--") {
    marked = true;
    words.erase(words.begin());
  }
  if (words.empty()) return absl::OkStatus();
  if (!marked && words.front().size() > 1 && words.front()[0] == '-') {
    const std::string name = words.front().substr(0, words.front().find('='));
    return absl::InvalidArgumentError(
        absl::StrCat(name, ": no such option (options of the script go after the script; see muster run --help)"));
  }
  result->script = words.front();
  result->script_arguments.assign(words.begin() + 1, words.end());
  return absl::OkStatus();
}

// CLI11 throws; nothing beyond this function sees it.
absl::StatusOr<CommandLine> Parse(const std::vector<OptionSpec>& table, std::vector<std::string> args) {
  CommandLine result;
  CLI::App app;
  app.set_help_flag();
  app.prefix_command();
  app.add_flag("-h,--help", result.help);
  std::map<std::string, std::string> values;
  std::map<std::string, CLI::Option*> options;
  for (const OptionSpec& spec : table) {
    std::string& value = values[std::string(spec.name)];
    options[std::string(spec.name)] =
        spec.is_switch()
            ? app.add_flag(Spellings(spec), value)
            : app.add_option(Spellings(spec), value)->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  }
  std::reverse(args.begin(), args.end());  // the order in which CLI11 takes them
  try {
    app.parse(args);
  } catch (const CLI::ArgumentMismatch& error) {
    const std::string text = error.what();  // "--nnodes: 1 required TEXT missing"
    return absl::InvalidArgumentError(absl::StrCat(text.substr(0, text.find(':')), ": needs a value"));
  } catch (const CLI::ParseError& error) {
    return absl::InvalidArgumentError(error.what());
  }
  for (const auto& [name, option] : options) {
    if (option->count() > 0) result.given[name] = values[name];
  }
  RETURN_IF_ERROR(TakeScript(app.remaining(), &result));
  return result;
}

}  // namespace

absl::StatusOr<CommandLine> ParseCommandLine(const std::vector<OptionSpec>& table,
                                             const std::vector<std::string>& args) {
  return Parse(table, args);
}

}  // namespace muster::cli
