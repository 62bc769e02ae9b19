#include "agent/host/core/output_hints.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace muster::host {
namespace {

constexpr int kException = 1;   // Python's exit code after one that nothing has caught
constexpr int kUsageError = 2;  // argparse's, with these words
constexpr char kUnknownArguments[] = "unrecognized arguments";
// The exceptions of Python's debugger and of input() at the end of standard input.
constexpr char kDebuggerQuit[] = "bdb.BdbQuit";
constexpr char kEndOfInput[] = "EOFError: EOF when reading a line";
constexpr char kNoModule[] = "ModuleNotFoundError: No module named ";

bool Names(const std::string& text) {
  return absl::StrContains(text, kDebuggerQuit) || absl::StrContains(text, kEndOfInput);
}

}  // namespace

std::string KeyboardHint(const v1::Failure& failure, const std::string& last_lines, bool unseen) {
  if (failure.has_signal() || failure.exit_code() != kException || failure.pid() == 0) return "";
  const bool is_told = Names(last_lines) || Names(failure.error_text()) || Names(failure.callstack());
  const bool is_open = unseen && failure.error_text().empty() && failure.callstack().empty();
  if (!is_told && !is_open) return "";
  return absl::StrCat(is_told ? "breakpoint() or input() found no keyboard"
                              : "if its output ends with bdb.BdbQuit or EOFError, it wanted the keyboard",
                      ": standard input of this worker is /dev/null. Give it the terminal with --stdin ",
                      failure.rank(), ", or, without a terminal, start it under debugpy with --debug ",
                      failure.rank(), ":PORT");
}

bool MayMeanLocalRank(const std::string& last_lines) {
  return last_lines.empty() || absl::StrContains(last_lines, kUnknownArguments) ||
         absl::StrContains(last_lines, "local-rank") || absl::StrContains(last_lines, "local_rank");
}

std::string UnknownOptionHint(const v1::Failure& failure, const std::string& last_lines,
                              const std::string& option) {
  if (failure.has_signal() || failure.exit_code() != kUsageError || option.empty()) return "";
  if (!absl::StrContains(last_lines, absl::StrCat(kUnknownArguments, ": --", option))) return "";
  return absl::StrCat("the script does not know --", option,
                      ", which each worker gets: by deepspeed's line, unless that has --no_local_rank, or by "
                      "--pass-local-rank");
}

std::string MissingModuleHint(const v1::Failure& failure, const std::string& last_lines,
                              const std::string& python) {
  if (failure.has_signal() || failure.exit_code() != kException || python.empty()) return "";
  for (const std::string* text : {&failure.error_text(), &failure.callstack(), &last_lines}) {
    if (!absl::StrContains(*text, kNoModule)) continue;
    return absl::StrCat("the workers' Python is ", python, "; if the module is installed in another environment, ",
                        "activate that, or give its Python with --python");
  }
  return "";
}

}  // namespace muster::host
