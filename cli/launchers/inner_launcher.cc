#include "cli/launchers/inner_launcher.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/core/status_macros.h"
#include "base/text/problem.h"
#include "cli/options/option_table.h"

namespace muster::cli {
namespace {

constexpr char kModule[] = "module";
constexpr char kNoPython[] = "no-python";
constexpr char kUseEnv[] = "use-env";

using Words = std::vector<std::string>;

std::string_view BaseName(std::string_view path) {
  const size_t slash = path.rfind('/');
  return slash == std::string_view::npos ? path : path.substr(slash + 1);
}

// python, python3, python3.11
bool IsPython(std::string_view name) {
  if (!name.starts_with("python")) return false;
  name.remove_prefix(6);
  if (name.ends_with('t')) name.remove_suffix(1);  // free-threaded: python3.13t
  return std::all_of(name.begin(), name.end(), [](char c) { return (c >= '0' && c <= '9') || c == '.'; });
}

std::string Quoted(const std::string& word) {
  constexpr std::string_view kPlain = "_-./:=,@%+";
  const bool plain = !word.empty() && std::all_of(word.begin(), word.end(), [&](unsigned char c) {
    return std::isalnum(c) != 0 || kPlain.find(static_cast<char>(c)) != std::string_view::npos;
  });
  if (plain) return word;
  std::string quoted = "'";
  for (const char c : word) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

// A line of `command` with our own options as given, followed by `rest`.
std::string LineOf(std::string_view command, const CommandLine& line, const Words& rest) {
  Words words = {std::string(command)};
  for (const auto& [name, value] : line.given) {
    const OptionSpec* spec = FindOption(RunOptions(), name);
    const bool is_switch = spec != nullptr ? spec->is_switch() : value == kSwitchGiven;
    words.push_back(absl::StrCat("--", name, is_switch ? "" : "=" + Quoted(value)));
  }
  for (const std::string& word : rest) words.push_back(Quoted(word));
  return absl::StrJoin(words, " ");
}

// A launcher as a program and as a module. Source: their entry points in torch 2.13, DeepSpeed 0.19.8
// (bin/deepspeed and its other names), Accelerate 1.15.0 and torchtune 0.6.1.
struct Known {
  LauncherKind kind;
  std::string_view program, module;
  std::string_view command;  // the word that follows; empty: none
};
constexpr Known kKnown[] = {
    {LauncherKind::kTorchrun, kTorchrun, "torch.distributed.run", ""},
    {LauncherKind::kTorchLaunch, "", "torch.distributed.launch", ""},
    {LauncherKind::kDeepspeed, "deepspeed", "deepspeed.launcher.runner", ""},
    {LauncherKind::kDeepspeed, "deepspeed.pt", "deepspeed.launcher.runner", ""},
    {LauncherKind::kDeepspeed, "ds", "deepspeed.launcher.runner", ""},
    {LauncherKind::kPython, "accelerate", "accelerate.commands.accelerate_cli", "launch"},
    {LauncherKind::kPython, "accelerate-launch", "accelerate.commands.launch", ""},
    {LauncherKind::kPython, "tune", "torchtune._cli.tune", "run"},
};

const Known* FindKnown(std::string_view Known::*name, std::string_view wanted) {
  const auto* const found = std::find_if(std::begin(kKnown), std::end(kKnown),
                                         [&](const Known& known) { return known.*name == wanted; });
  return found == std::end(kKnown) || wanted.empty() ? nullptr : found;
}

const Known* FindKnown(const InnerLauncher& launcher) {
  return launcher.is_module ? FindKnown(&Known::module, launcher.program)
                            : FindKnown(&Known::program, BaseName(launcher.program));
}

// Takes `python -X dev -m MODULE ...` apart, also `-umMODULE`. False: the interpreter runs something else.
bool TakeModule(const Words& arguments, InnerLauncher* launcher) {
  constexpr std::string_view kTakeValue = "XW", kLongWithValue = "--check-hash-based-pycs";
  Words options;
  for (size_t at = 0; at < arguments.size() && arguments[at].starts_with('-'); ++at) {
    const std::string& word = arguments[at];
    const size_t end = word.starts_with("--") ? std::string::npos : word.find_first_of("mcXW", 1);
    const bool has_module = end != std::string::npos && word[end] == 'm';
    if (word == "-" || (end != std::string::npos && word[end] == 'c')) return false;
    if (!has_module) {
      options.push_back(word);
      const bool letter = end != std::string::npos && kTakeValue.find(word[end]) != std::string_view::npos;
      const bool valued = (letter && end + 1 == word.size()) || word == kLongWithValue;
      if (valued && at + 1 < arguments.size()) options.push_back(arguments[++at]);
      continue;
    }
    if (end > 1) options.push_back(word.substr(0, end));
    Words rest(arguments.begin() + static_cast<int64_t>(at) + 1, arguments.end());
    if (end + 1 < word.size()) rest.insert(rest.begin(), word.substr(end + 1));
    if (rest.empty()) return false;
    launcher->interpreter_options = std::move(options);
    launcher->program = rest.front();
    launcher->words.assign(rest.begin() + 1, rest.end());
    launcher->is_module = true;
    return true;
  }
  return false;
}

// What would be a launcher if it has a known name.
InnerLauncher Candidate(const CommandLine& line) {
  InnerLauncher launcher;
  launcher.program = line.script;
  launcher.words = line.script_arguments;
  launcher.is_module = line.given.contains(kModule);
  if (launcher.is_module || !IsPython(BaseName(line.script))) return launcher;
  if (TakeModule(line.script_arguments, &launcher)) launcher.interpreter = line.script;
  return launcher;
}

// An option in front, and an option of the launcher that it makes void.
constexpr std::pair<std::string_view, std::string_view> kVoids[] = {
    {"master-addr", "rdzv-endpoint"}, {"rdzv-endpoint", "master-addr"}, {"rdzv-endpoint", "master-port"},
    {"nnodes", "standalone"},         {"node-rank", "standalone"},      {"master-addr", "standalone"},
    {"rdzv-endpoint", "standalone"},  {"coordinator", "standalone"},    {"coordinator", "rdzv-endpoint"},
    {"coordinator", "master-addr"},   {"coordinator", "master-port"},   {"standalone", "nnodes"},
    {"standalone", "node-rank"},      {"standalone", "rdzv-endpoint"},  {"standalone", "master-addr"},
    {"standalone", "master-port"},    {"hostfile", "standalone"},       {"hostfile", "nnodes"},
    {"hostfile", "node-rank"},        {"hostfile", "rdzv-endpoint"},    {"hostfile", "master-addr"},
};

// For "python -u -m pkg.mod x": muster always sets -u, and -m becomes muster's option. With any other option of
// the interpreter, or code on the command line, the interpreter stays the program.
Words AfterPython(const std::string& python, const Words& arguments) {
  size_t at = 0;
  while (at < arguments.size() && arguments[at] == "-u") ++at;
  if (at == arguments.size()) return {"SCRIPT"};
  Words rest(arguments.begin() + static_cast<int64_t>(at), arguments.end());
  if (!rest[0].starts_with('-')) return rest;
  if (rest[0] == "-m" && rest.size() > 1) return rest;
  Words whole = {"--no-python", python};
  whole.insert(whole.end(), arguments.begin(), arguments.end());
  return whole;
}

}  // namespace

absl::StatusOr<std::optional<InnerLauncher>> FindLauncher(const CommandLine& line, bool is_own) {
  if (line.as_torchrun) return std::nullopt;
  InnerLauncher launcher = Candidate(line);
  if (is_own && !launcher.is_module) return std::nullopt;
  const Known* const known = FindKnown(launcher);
  if (known == nullptr) return std::nullopt;
  if (!known->command.empty() && (launcher.words.empty() || launcher.words[0] != known->command)) {
    return absl::InvalidArgumentError(absl::StrCat(launcher.program, launcher.words.empty() ? "" : " ",
                                                   launcher.words.empty() ? "" : Shown(launcher.words[0]),
                                                   ": muster starts only ", AsAbsl(known->program), " ",
                                                   AsAbsl(known->command), "; type the rest without muster run"));
  }
  launcher.kind = known->kind;
  return launcher;
}

std::string ModuleOf(const InnerLauncher& launcher) {
  const Known* const known = FindKnown(launcher);
  return known == nullptr ? "" : std::string(known->module);
}

std::string NameOf(const InnerLauncher& launcher) {
  const Known* const known = FindKnown(launcher);
  const std::string name = launcher.is_module ? launcher.program : std::string(BaseName(launcher.program));
  return known == nullptr || known->command.empty() ? name : absl::StrCat(name, " ", AsAbsl(known->command));
}

std::map<std::string, std::string> OptionsInFrontOf(const CommandLine& line) {
  std::map<std::string, std::string> options = line.given;
  options.erase(kModule);
  options.erase(kNoPython);
  return options;
}

std::string OptionWord(const std::string& option, const std::string& value) {
  const OptionSpec* const spec = FindOption(RunOptions(), option);
  return absl::StrCat("--", option, spec != nullptr && spec->is_switch() ? "" : "=" + value);
}

JoinedLine Join(const std::map<std::string, std::string>& in_front, JoinedLine own) {
  auto& given = own.line.given;
  const auto note = [&own](const std::string& front, const std::string& replaced) {
    own.notes.push_back(absl::StrCat(front, ", given in front, takes precedence over the launcher's ", replaced));
  };
  for (const auto& [name, value] : in_front) {
    const std::string front = OptionWord(name, value);
    for (const auto& [by, other] : kVoids) {
      const auto at = given.find(std::string(other));
      if (by != name || at == given.end() || in_front.contains(at->first)) continue;
      note(front, OptionWord(at->first, at->second));
      given.erase(at);
    }
    const auto [at, is_new] = given.emplace(name, value);
    if (is_new || at->second == value) continue;
    note(front, OptionWord(name, at->second));
    at->second = value;
  }
  return own;
}

bool HasNameOfALauncher(std::string_view program) {
  return FindKnown(&Known::program, BaseName(program)) != nullptr;
}

bool IsNoLauncher(std::string_view beginning) {
  constexpr std::string_view kBinary =
      "\x7f"
      "ELF";
  if (beginning.empty() || beginning.starts_with(kBinary)) return false;
  return std::none_of(std::begin(kKnown), std::end(kKnown),
                      [&](const Known& known) { return beginning.find(known.module) != std::string_view::npos; });
}

absl::StatusOr<CommandLine> ReadTorchLine(const InnerLauncher& launcher) {
  std::vector<OptionSpec> table = RunOptions();
  const bool is_launch = launcher.kind == LauncherKind::kTorchLaunch;
  if (is_launch) table.push_back({kUseEnv, "", Group::kTorchrun, kPet | kNoVariable, ""});
  ASSIGN_OR_RETURN(CommandLine line, ParseCommandLine(table, launcher.words, kTorchrun));
  if (!is_launch || line.given.erase(kUseEnv) > 0) return line;
  if (line.given.contains(kNoPython)) {
    return absl::InvalidArgumentError("torch.distributed.launch: --no-python needs --use-env, too");
  }
  line.given.emplace("pass-local-rank", "");
  return line;
}

std::string InterpreterNamedIn(std::string_view beginning) {
  if (!beginning.starts_with("#!")) return "";
  const std::vector<std::string> words =
      absl::StrSplit(AsAbsl(beginning.substr(2, beginning.find('\n') - 2)), ' ', absl::SkipWhitespace());
  for (const std::string& word : words) {
    if (IsPython(BaseName(word))) return word;
  }
  return "";
}

std::optional<std::string> LineInstead(const CommandLine& line, bool is_file, std::string_view command) {
  if (is_file) return std::nullopt;
  const std::string name(BaseName(line.script));
  const Words& arguments = line.script_arguments;
  if (IsPython(name)) return LineOf(command, line, AfterPython(line.script, arguments));
  if (name == "muster")
    return LineOf(command, line, {arguments.begin() + (arguments.empty() ? 0 : 1), arguments.end()});
  return std::nullopt;
}

std::optional<std::string> ShellLineInstead(const CommandLine& line, bool is_file, std::string_view command) {
  static constexpr std::array<std::string_view, 6> kShells = {"bash", "sh", "dash", "zsh", "ksh", "fish"};
  const bool is_script = line.script.ends_with(".sh");
  const bool is_shell =
      !is_file && std::find(kShells.begin(), kShells.end(), BaseName(line.script)) != kShells.end();
  if (!is_script && !is_shell) return std::nullopt;
  Words words = {"--no-python"};
  if (is_script) words.push_back("bash");
  words.push_back(line.script);
  words.insert(words.end(), line.script_arguments.begin(), line.script_arguments.end());
  return LineOf(command, line, words);
}

}  // namespace muster::cli
