#include "cli/known_launchers.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "cli/option_table.h"
#include "proto/base/status_macros.h"

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

// Our own options as they were given, then what is to follow.
std::string RunLine(const CommandLine& line, const Words& rest) {
  Words words = {"muster", "run"};
  for (const auto& [name, value] : line.given) {
    const OptionSpec* spec = FindOption(RunOptions(), name);
    words.push_back(absl::StrCat("--", name, spec != nullptr && !spec->is_switch() ? "=" + Quoted(value) : ""));
  }
  for (const std::string& word : rest) words.push_back(Quoted(word));
  return absl::StrJoin(words, " ");
}

// "python -u -m pkg.mod x": the interpreter's own options go, -m becomes ours.
Words AfterPython(const Words& arguments) {
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i] == "-m" || arguments[i].empty() || arguments[i][0] != '-') {
      return {arguments.begin() + static_cast<int64_t>(i), arguments.end()};
    }
  }
  return {"SCRIPT"};
}

// "accelerate launch --num_processes 2 train.py x": its options are its own; from the script on all is kept.
Words AfterAccelerate(const Words& arguments) {
  const auto script = std::find_if(arguments.begin(), arguments.end(),
                                   [](const std::string& word) { return word.ends_with(".py"); });
  if (script == arguments.end()) return {"SCRIPT"};
  return {script, arguments.end()};
}

}  // namespace

std::optional<std::string> LineInstead(const CommandLine& line, bool is_file) {
  if (is_file) return std::nullopt;
  const std::string name(BaseName(line.script));
  const Words& arguments = line.script_arguments;
  if (IsPython(name)) return RunLine(line, AfterPython(arguments));
  if (name == "torchrun") return RunLine(line, arguments);
  if (name == "accelerate") return RunLine(line, AfterAccelerate(arguments));
  if (name == "muster") return RunLine(line, {arguments.begin() + (arguments.empty() ? 0 : 1), arguments.end()});
  if (name == "deepspeed") {
    Words words = {"deepspeed"};
    words.insert(words.end(), arguments.begin(), arguments.end());
    return absl::StrCat("ln -s \"$(command -v muster)\" deepspeed && ./", absl::StrJoin(words, " "));
  }
  return std::nullopt;
}

}  // namespace muster::cli
