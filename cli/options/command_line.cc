#include "cli/options/command_line.h"

#include <algorithm>
#include <optional>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/core/status_macros.h"
#include "base/text/problem.h"
#include "cli/options/nearest.h"

namespace muster::cli {
namespace {

constexpr char kTokenItself[] = "token";

constexpr std::string_view kCommandsWithScript[] = {"muster run",   kTorchrun,    "deepspeed",
                                                    "muster local", "muster env", "muster host"};

std::string WithDashes(std::string_view name) {
  std::string result(name);
  std::replace(result.begin(), result.end(), '_', '-');
  return result;
}

absl::Status NoSuchOption(const std::string& word, const std::string& meant, std::string_view command) {
  const bool has_script = std::find(std::begin(kCommandsWithScript), std::end(kCommandsWithScript), command) !=
                          std::end(kCommandsWithScript);
  const char* const script_hint = has_script ? "options of the script go after the script; " : "";
  return absl::InvalidArgumentError(
      absl::StrCat(Shown(word), ": no such option", meant.empty() ? "" : "; did you mean --", meant,
                   meant.empty() ? "" : "?", " (", script_hint, "see ", AsAbsl(command), " --help)"));
}

std::string NearestOption(const std::vector<OptionSpec>& table, const std::string& name) {
  std::vector<std::string> names;
  for (const OptionSpec& spec : table) names.emplace_back(spec.name);
  return NearestWord(name, names);
}

// Finds the option by its full name, else by a unique abbreviation, as argparse does. Options of torchrun come
// first, so that an abbreviation that is unique for torchrun is not made ambiguous by muster's own options.
absl::StatusOr<const OptionSpec*> Resolve(const std::vector<OptionSpec>& table, const std::string& word,
                                          std::string_view command) {
  const std::string name = WithDashes(word.substr(2));
  if (const OptionSpec* exact = FindOption(table, name)) return exact;
  // Not an abbreviation of --token-file, whose messages show its value.
  if (name == kTokenItself) {
    return absl::InvalidArgumentError(
        "--token: on a command line every user of the machine could read it; "
        "use --token-file FILE or the variable MUSTER_TOKEN");
  }
  for (const bool torchrun : {true, false}) {
    std::vector<const OptionSpec*> fits;
    std::vector<std::string> names;
    for (const OptionSpec& spec : table) {
      if (spec.has(kPet) != torchrun || !spec.name.starts_with(name)) continue;
      fits.push_back(&spec);
      names.push_back(absl::StrCat("--", AsAbsl(spec.name)));
    }
    if (fits.size() == 1) return fits.front();
    if (fits.size() > 1) {
      return absl::InvalidArgumentError(
          absl::StrCat(Shown(word), ": ambiguous; could be ", absl::StrJoin(names, ", ")));
    }
  }
  return NoSuchOption(word, NearestOption(table, name), command);
}

const OptionSpec* FindShorthand(const std::vector<OptionSpec>& table, char letter) {
  for (const OptionSpec& spec : table) {
    if (spec.shorthand == letter) return &spec;
  }
  return nullptr;
}

// Reads the words in order; the table determines which options exist and which take a value.
class Parser {
 public:
  Parser(const std::vector<OptionSpec>& table, const std::vector<std::string>& args, std::string_view command)
      : table_(table), args_(args), command_(command) {}

  absl::StatusOr<CommandLine> Run() {
    result_.as_torchrun = command_ == kTorchrun;
    bool options_ended = false;
    while (at_ < args_.size()) {
      const std::string& word = args_[at_];
      if (word == "--") {  // ends our options; after the script it belongs to the script
        options_ended = true;
        ++at_;
        break;
      }
      if (word.size() < 2 || word[0] != '-') break;
      ++at_;
      RETURN_IF_ERROR(word[1] == '-' ? Long(word) : Short(word));
    }
    if (at_ < args_.size()) {
      result_.script = args_[at_++];
      // argparse takes the first "--" of a line away if it stands before or right after the script.
      const bool is_lost = result_.as_torchrun && !options_ended && at_ < args_.size() && args_[at_] == "--";
      if (is_lost) ++at_;
      result_.script_arguments.assign(args_.begin() + static_cast<int64_t>(at_), args_.end());
    }
    return std::move(result_);
  }

 private:
  absl::Status Long(const std::string& word) {
    const size_t equals = word.find('=');
    const std::string name = word.substr(0, equals);
    if (WithDashes(name) == "--help") {
      result_.help = true;
      return absl::OkStatus();
    }
    ASSIGN_OR_RETURN(const OptionSpec* spec, Resolve(table_, name, command_));
    if (equals == std::string::npos) return Take(*spec, absl::StrCat("--", AsAbsl(spec->name)));
    return Take(*spec, absl::StrCat("--", AsAbsl(spec->name)), word.substr(equals + 1));
  }

  // -m; -r 3, -r3, -r=3; -mr3 is -m -r3
  absl::Status Short(const std::string& word) {
    if (word == "-h") {
      result_.help = true;
      return absl::OkStatus();
    }
    const std::string name = word.substr(0, 2);
    const OptionSpec* spec = FindShorthand(table_, word[1]);
    if (spec == nullptr) return NoSuchOption(word.substr(0, word.find('=')), "", command_);
    if (word.size() == 2) return Take(*spec, name);
    if (spec->is_switch() && FindShorthand(table_, word[2]) != nullptr) {
      RETURN_IF_ERROR(Take(*spec, name));
      return Short("-" + word.substr(2));
    }
    return Take(*spec, name, word.substr(word[2] == '=' ? 3 : 2));
  }

  absl::Status Take(const OptionSpec& spec, const std::string& shown, std::optional<std::string> value = {}) {
    std::string& slot = result_.given[std::string(spec.name)];
    if (spec.is_switch()) {
      if (value) {
        return absl::InvalidArgumentError(absl::StrCat(shown, "=", Shown(*value), ": takes no value"));
      }
      slot = kSwitchGiven;
      return absl::OkStatus();
    }
    if (!value && spec.value_is_optional()) value = "";
    if (!value) {
      // In "--nnodes --standalone" the value is missing. A single "-" or a negative number can be a value.
      const bool there = at_ < args_.size() && !LooksLikeOption(args_[at_]);
      if (!there) return absl::InvalidArgumentError(absl::StrCat(shown, ": needs a value"));
      value = args_[at_++];
    }
    slot = *std::move(value);
    return absl::OkStatus();
  }

  static bool LooksLikeOption(const std::string& word) {
    return word.size() > 1 && word[0] == '-' && (word[1] < '0' || word[1] > '9') && word[1] != '.';
  }

  const std::vector<OptionSpec>& table_;
  const std::vector<std::string>& args_;
  const std::string_view command_;
  size_t at_ = 0;
  CommandLine result_;
};

}  // namespace

absl::StatusOr<CommandLine> ParseCommandLine(const std::vector<OptionSpec>& table,
                                             const std::vector<std::string>& args, std::string_view command) {
  return Parser(table, args, command).Run();
}

}  // namespace muster::cli
