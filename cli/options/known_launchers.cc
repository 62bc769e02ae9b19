#include "cli/options/known_launchers.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/core/status_macros.h"
#include "cli/options/option_table.h"

namespace muster::cli {
namespace {

using Words = std::vector<std::string>;

std::string_view BaseName(std::string_view path) {
  const size_t slash = path.rfind('/');
  return slash == std::string_view::npos ? path : path.substr(slash + 1);
}

// python, python3, python3.11
bool IsPython(std::string_view name) {
  if (!name.starts_with("python")) return false;
  name.remove_prefix(6);
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

// A `muster run` line with our own options as given, followed by `rest`.
std::string RunLine(const CommandLine& line, const Words& rest) {
  Words words = {"muster", "run"};
  for (const auto& [name, value] : line.given) {
    const OptionSpec* spec = FindOption(RunOptions(), name);
    words.push_back(absl::StrCat("--", name, spec != nullptr && !spec->is_switch() ? "=" + Quoted(value) : ""));
  }
  for (const std::string& word : rest) words.push_back(Quoted(word));
  return absl::StrJoin(words, " ");
}

Words::const_iterator FirstScript(const Words& words) {
  return std::find_if(words.begin(), words.end(), [](const std::string& word) { return word.ends_with(".py"); });
}

// torchrun loses a "--" right after the script; `muster run` passes it on.
Words AfterTorchrun(Words words) {
  const absl::StatusOr<CommandLine> line = ParseCommandLine(RunOptions(), words, kTorchrun);
  if (!line.ok() || line->script.empty()) return words;
  const auto before_arguments = words.end() - static_cast<int64_t>(line->script_arguments.size()) - 1;
  if (*before_arguments == "--" && line->script != "--") words.erase(before_arguments);
  return words;
}

// torch's launchers as modules: muster has their options; the older one passes the local rank as an argument.
std::optional<Words> AfterTorchModule(const Words& words) {
  if (words[0] == "torch.distributed.run") return AfterTorchrun({words.begin() + 1, words.end()});
  if (words[0] != "torch.distributed.launch") return std::nullopt;
  const auto script = FirstScript(words);
  Words rest(words.begin() + 1, script);
  const size_t before = rest.size();
  rest.erase(std::remove_if(rest.begin(), rest.end(),
                            [](const std::string& word) { return word == "--use-env" || word == "--use_env"; }),
             rest.end());
  if (rest.size() == before) rest.insert(rest.begin(), "--pass-local-rank");
  rest.insert(rest.end(), script, words.end());
  return rest;
}

// For "python -u -m pkg.mod x": muster always sets -u, and -m becomes muster's option. With any other option of
// the interpreter, or code on the command line, the interpreter stays the program.
Words AfterPython(const std::string& python, const Words& arguments) {
  size_t at = 0;
  while (at < arguments.size() && arguments[at] == "-u") ++at;
  if (at == arguments.size()) return {"SCRIPT"};
  Words rest(arguments.begin() + static_cast<int64_t>(at), arguments.end());
  if (!rest[0].starts_with('-')) return rest;
  if (rest[0] == "-m" && rest.size() > 1) {
    const Words module(rest.begin() + 1, rest.end());
    return AfterTorchModule(module).value_or(rest);
  }
  Words whole = {"--no-python", python};
  whole.insert(whole.end(), arguments.begin(), arguments.end());
  return whole;
}

// For "accelerate launch --num_processes 2 train.py x": drops accelerate's own options and keeps the rest.
Words AfterAccelerate(const Words& arguments) {
  const auto script = FirstScript(arguments);
  if (script == arguments.end()) return {"SCRIPT"};
  return {script, arguments.end()};
}

}  // namespace

std::optional<std::string> LineInstead(const CommandLine& line, bool is_file) {
  if (is_file) return std::nullopt;
  const std::string name(BaseName(line.script));
  const Words& arguments = line.script_arguments;
  if (IsPython(name)) return RunLine(line, AfterPython(line.script, arguments));
  if (name == kTorchrun) return RunLine(line, AfterTorchrun(arguments));
  if (name == "accelerate") return RunLine(line, AfterAccelerate(arguments));
  if (name == "muster") return RunLine(line, {arguments.begin() + (arguments.empty() ? 0 : 1), arguments.end()});
  if (name == "deepspeed") {
    Words words = {"deepspeed"};
    words.insert(words.end(), arguments.begin(), arguments.end());
    return absl::StrCat("ln -s \"$(command -v muster)\" deepspeed && ./", absl::StrJoin(words, " "));
  }
  return std::nullopt;
}

std::optional<std::string> ShellLineInstead(const CommandLine& line, bool is_file) {
  static constexpr std::array<std::string_view, 6> kShells = {"bash", "sh", "dash", "zsh", "ksh", "fish"};
  const bool is_script = line.script.ends_with(".sh");
  const bool is_shell =
      !is_file && std::find(kShells.begin(), kShells.end(), BaseName(line.script)) != kShells.end();
  if (!is_script && !is_shell) return std::nullopt;
  Words words = {"--no-python"};
  if (is_script) words.push_back("bash");
  words.push_back(line.script);
  words.insert(words.end(), line.script_arguments.begin(), line.script_arguments.end());
  return RunLine(line, words);
}

}  // namespace muster::cli
