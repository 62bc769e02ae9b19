#include "cli/commands/completion.h"

#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "base/core/status_macros.h"
#include "cli/commands/commands.h"
#include "cli/options/option_table.h"
#include "cli/options/values.h"

namespace muster::cli {
namespace {

// Reads COMP_WORDS up to the script; for the script's arguments it offers files.
constexpr char kScript[] = R"bash(# muster's options. bash: eval "$(muster run --print-completion bash)"
_muster() {
  local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]} command=run begin=1 options at
  if [ "${COMP_WORDS[0]##*/}" = muster ]; then
    if [ "$COMP_CWORD" = 1 ] || [ "$COMP_CWORD:${COMP_WORDS[1]}" = 2:help ]; then
      COMPREPLY=($(compgen -W "@COMMANDS@" -- "$current"))
      return
    fi
    command=${COMP_WORDS[1]} begin=2
  fi
  case $command in
    @OPTIONS@
    *) return ;;
  esac
  for ((at = begin; at < COMP_CWORD; at++)); do
    case ${COMP_WORDS[at]} in
      @VALUES@) ((at++)) ;;
      -*|=) ;;
      *) COMPREPLY=($(compgen -f -- "$current")); return ;;
    esac
  done
  case $previous in
    @CHOICES@
    @VALUES@) COMPREPLY=($(compgen -f -- "$current")); return ;;
  esac
  case $current in
    -*) COMPREPLY=($(compgen -W "$options" -- "$current")) ;;
    *) COMPREPLY=($(compgen -f -- "$current")) ;;
  esac
}
complete -o filenames -F _muster muster torchrun
)bash";
// The first line is for a file in a folder of completions, which zsh loads as the function _muster at the first
// Tab; the last one then completes that word.
constexpr char kZshFirst[] = "#compdef muster torchrun\nautoload -U +X bashcompinit && bashcompinit\n";
constexpr char kZshLast[] = "[ \"${funcstack[1]}\" != _muster ] || _bash_complete -o filenames -F _muster\n";

// The lower-case words of a value such as "auto|gpu|N", which can be offered.
std::string Choices(std::string_view value) {
  std::string words, word;
  for (const char c : std::string(value) + "|") {
    if (c != '|') {
      word += c;
      continue;
    }
    bool plain = !word.empty();
    for (const char letter : word) plain &= (letter >= 'a' && letter <= 'z') || letter == '-';
    if (plain) absl::StrAppend(&words, words.empty() ? "" : " ", word);
    word.clear();
  }
  return words;
}

// The first sentence of a help text, in single quotes for fish.
std::string FishText(std::string_view text) {
  const size_t end = text.find(". ");
  std::string sentence(text.substr(0, end));
  if (sentence.ends_with('.')) sentence.pop_back();
  return absl::StrCat("'", absl::StrReplaceAll(sentence, {{"\\", "\\\\"}, {"'", "\\'"}}), "'");
}

// One line for an option, for the programs and the condition in `whose`.
std::string FishOption(std::string_view whose, const OptionSpec& spec) {
  std::string line = absl::StrCat("complete ", AsAbsl(whose), " -l ", AsAbsl(spec.name));
  if (spec.shorthand != 0) absl::StrAppend(&line, " -s ", std::string(1, spec.shorthand));
  const std::string words = Choices(spec.value);
  if (!words.empty()) absl::StrAppend(&line, " -a '", words, "'");
  const bool has_value = !spec.is_switch() && !spec.value_is_optional();
  return absl::StrCat(line, has_value ? " -r" : "", " -d ", FishText(spec.help), "\n");
}

std::string FishScript() {
  std::string script = "# muster's options. fish: muster run --print-completion fish | source\n";
  for (const Subcommand& command : kSubcommands) {
    if (command.kind == CommandKind::kInternal) continue;
    absl::StrAppend(&script, "complete -c muster -n __fish_use_subcommand -a ", command.name, " -d ",
                    FishText(command.summary == nullptr ? "" : command.summary), "\n");
    if (command.options == nullptr) continue;
    const std::string whose = absl::StrCat("-c muster -n '__fish_seen_subcommand_from ", command.name, "'");
    for (const OptionSpec& spec : command.options()) script += FishOption(whose, spec);
  }
  for (const OptionSpec& spec : RunOptions()) script += FishOption("-c torchrun", spec);
  return script;
}

}  // namespace

absl::StatusOr<std::string> CompletionScript(const std::string& shell) {
  RETURN_IF_ERROR(ParseShell(shell).status());
  if (shell == "fish") return FishScript();
  // An option that several commands have takes the same values in each.
  std::set<std::string_view> seen;
  std::vector<std::string> options, values, choices;
  for (const Subcommand& command : kSubcommands) {
    if (command.kind == CommandKind::kInternal || command.options == nullptr) continue;
    std::string names = "--help";
    for (const OptionSpec& spec : command.options()) {
      const std::string name = absl::StrCat("--", AsAbsl(spec.name));
      absl::StrAppend(&names, " ", name);
      if (!seen.insert(spec.name).second || spec.is_switch() || spec.value_is_optional()) continue;
      values.push_back(name);
      if (spec.shorthand != 0) values.push_back(absl::StrCat("-", std::string(1, spec.shorthand)));
      const std::string words = Choices(spec.value);
      if (!words.empty())
        choices.push_back(
            absl::StrCat(name, ") COMPREPLY=($(compgen -W \"", words, "\" -- \"$current\")); return ;;"));
    }
    options.push_back(absl::StrCat(command.name, ") options=\"", names, "\" ;;"));
  }
  const std::string script = absl::StrReplaceAll(kScript, {{"@COMMANDS@", absl::StrJoin(SubcommandNames(), " ")},
                                                           {"@OPTIONS@", absl::StrJoin(options, "\n    ")},
                                                           {"@VALUES@", absl::StrJoin(values, "|")},
                                                           {"@CHOICES@", absl::StrJoin(choices, "\n    ")}});
  return shell == "zsh" ? kZshFirst + script + kZshLast : script;
}

}  // namespace muster::cli
