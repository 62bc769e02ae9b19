#include "cli/completion.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "cli/option_table.h"
#include "proto/base/status_macros.h"

namespace muster::cli {
namespace {

// COMP_WORDS up to the script: after it the words are the script's, and files are offered.
constexpr char kScript[] = R"bash(# muster's options. bash: eval "$(muster run --print-completion bash)"
_muster() {
  local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]} begin=1 at
  if [ "${COMP_WORDS[0]##*/}" = muster ]; then
    if [ "$COMP_CWORD" = 1 ]; then
      COMPREPLY=($(compgen -W "run local env version help" -- "$current"))
      return
    fi
    begin=2
  fi
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
    -*) COMPREPLY=($(compgen -W "@OPTIONS@" -- "$current")) ;;
    *) COMPREPLY=($(compgen -f -- "$current")) ;;
  esac
}
complete -o filenames -F _muster muster torchrun
)bash";
constexpr char kZshFirst[] = "autoload -U +X bashcompinit && bashcompinit\n";

// "auto|gpu|N": the words in small letters can be offered.
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

}  // namespace

absl::StatusOr<std::string> CompletionScript(const std::string& shell) {
  if (shell != "bash" && shell != "zsh") return absl::InvalidArgumentError("expected bash or zsh");
  std::string options = "--help", values, choices;
  for (const OptionSpec& spec : RunOptions()) {
    const std::string name = absl::StrCat("--", AsAbsl(spec.name));
    absl::StrAppend(&options, " ", name);
    if (spec.is_switch() || spec.value_is_optional()) continue;
    absl::StrAppend(&values, values.empty() ? "" : "|", name);
    if (spec.shorthand != 0) absl::StrAppend(&values, "|-", std::string(1, spec.shorthand));
    const std::string words = Choices(spec.value);
    if (words.empty()) continue;
    absl::StrAppend(&choices, choices.empty() ? "" : "\n    ", name, ") COMPREPLY=($(compgen -W \"", words,
                    "\" -- \"$current\")); return ;;");
  }
  const std::string script =
      absl::StrReplaceAll(kScript, {{"@OPTIONS@", options}, {"@VALUES@", values}, {"@CHOICES@", choices}});
  return shell == "zsh" ? kZshFirst + script : script;
}

}  // namespace muster::cli
