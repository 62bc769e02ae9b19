#include "cli/launchers/python_launcher.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/core/status_macros.h"
#include "base/io/memory_file.h"

namespace muster::cli {
namespace {

constexpr size_t kBeginningBytes = 4096;  // of a launcher's program, which is a few lines that import its module

std::string FolderOf(const std::string& path) { return path.substr(0, path.rfind('/')); }

absl::Status AsStatus(const machine::ProgramCheck& check) {
  if (check.exit_code == 0) return absl::OkStatus();
  return check.exit_code == kExitNotFound ? absl::NotFoundError(check.problem)
                                          : absl::PermissionDeniedError(check.problem);
}

std::vector<std::string> OptionWords(const std::map<std::string, std::string>& options) {
  std::vector<std::string> words;
  for (const auto& [name, value] : options) words.push_back(OptionWord(name, value));
  return words;
}

// Executes argv[0]; archive is the file that argv[1] names by its number, and outlives the call.
absl::Status Execute(const std::vector<std::string>& argv, const OwnedFd& archive) {
  fcntl(archive.get(), F_SETFD, 0);
  std::vector<char*> words;
  for (const std::string& word : argv) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  execv(words[0], words.data());
  return absl::InternalError(absl::StrCat("cannot execute ", argv[0], ": ", std::strerror(errno)));
}

}  // namespace

std::string BeginningOf(const std::string& path) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(path, ignored)) return "";
  std::array<char, kBeginningBytes> bytes;
  std::ifstream file(path, std::ios::binary);
  file.read(bytes.data(), bytes.size());
  return {bytes.data(), static_cast<size_t>(file.gcount())};
}

std::string PythonOf(const InnerLauncher& launcher, const machine::Environment& environment) {
  if (!launcher.interpreter.empty() || launcher.is_module) return launcher.interpreter;
  const auto found =
      machine::CheckProgram(machine::ProgramKind::kProgram, launcher.program, {}, environment, machine::ProbeFile);
  const std::string beginning = found.path.empty() ? "" : BeginningOf(found.path);
  if (!beginning.starts_with("#!")) return "";
  std::string named = InterpreterNamedIn(beginning);
  // So pip and uv write it if the interpreter's path is too long for the kernel, or not known.
  if (!named.empty() || !absl::StrContains(beginning, "\n'''exec'")) return named;
  const std::string beside = FolderOf(found.path) + "/python";
  return machine::ProbeFile(beside).executable ? beside : "";
}

absl::Status BecomeLauncher(const InnerLauncher& launcher, const std::map<std::string, std::string>& in_front,
                            const std::string& python, const std::string& called_as,
                            const machine::Environment& environment) {
  const std::string own = PythonOf(launcher, environment);
  std::string target = launcher.program;
  if (!launcher.is_module) {
    const auto program =
        machine::CheckProgram(machine::ProgramKind::kProgram, target, {}, environment, machine::ProbeFile);
    RETURN_IF_ERROR(AsStatus(program));
    target = program.path;
    if (own.empty() && BeginningOf(target).starts_with("#!")) {
      return absl::InvalidArgumentError(absl::StrCat(
          target,
          ": expected a Python program, but its first line names no Python; give the launcher's own file, or ",
          "python -m ", ModuleOf(launcher), ", in its place"));
    }
  }
  const auto interpreter = machine::CheckProgram(
      machine::ProgramKind::kModule, "",
      machine::ChooseInterpreter(environment, {own.empty() ? python : own, called_as}, machine::ProbeFile),
      environment, machine::ProbeFile);
  RETURN_IF_ERROR(AsStatus(interpreter));
  std::error_code error;
  const std::string muster = std::filesystem::read_symlink("/proc/self/exe", error).string();
  if (error) return absl::InternalError(absl::StrCat("cannot read /proc/self/exe: ", error.message()));
  ASSIGN_OR_RETURN(const OwnedFd archive, MemoryFile("muster-launcher", StoredArchive(LauncherFiles())));
  const std::vector<std::string> options = OptionWords(in_front);
  std::vector<std::string> argv = {interpreter.path};
  argv.insert(argv.end(), launcher.interpreter_options.begin(), launcher.interpreter_options.end());
  argv.insert(argv.end(), {absl::StrCat("/proc/self/fd/", archive.get()), muster, absl::StrCat(options.size())});
  argv.insert(argv.end(), options.begin(), options.end());
  argv.insert(argv.end(), {launcher.is_module ? "module" : "file", target});
  argv.insert(argv.end(), launcher.words.begin(), launcher.words.end());
  return Execute(argv, archive);
}

}  // namespace muster::cli
