#include "agent/platform/machine/interpreter.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <utility>

#include "absl/time/time.h"
#include "base/text/text.h"

namespace muster::machine {
namespace {

constexpr char kDefaultPath[] = "/usr/local/bin:/usr/bin:/bin";  // if PATH is not set
constexpr const char* kPythonNames[] = {"python", "python3"};
// What a virtual environment, or one of conda, has above its bin.
constexpr const char* kEnvironmentMarks[] = {"pyvenv.cfg", "conda-meta"};

std::string ValueOf(const Environment& environment, const std::string& name) {
  const auto found = environment.find(name);
  return found == environment.end() ? "" : found->second;
}

std::vector<std::string> PathDirectories(const Environment& environment) {
  const auto found = environment.find("PATH");
  const std::string path = found == environment.end() ? kDefaultPath : found->second;
  std::vector<std::string> directories;
  size_t begin = 0;
  while (true) {
    const size_t end = path.find(':', begin);
    const std::string entry = path.substr(begin, end == std::string::npos ? end : end - begin);
    directories.push_back(entry.empty() ? "." : entry);  // as POSIX defines
    if (end == std::string::npos) return directories;
    begin = end + 1;
  }
}

std::string Join(const std::string& directory, const std::string& name) {
  return directory.ends_with('/') ? directory + name : directory + "/" + name;
}

bool IsRunnable(const FileState& file) { return file.exists && !file.is_directory && file.executable; }

std::string PythonIn(const std::string& directory, const FileProbe& probe) {
  for (const char* name : kPythonNames) {
    std::string path = Join(directory, name);
    if (IsRunnable(probe(path))) return path;
  }
  return "";
}

// Looks a name up on PATH, as execvp does; a name with a slash is a path itself.
struct Lookup {
  std::string path;            // an executable file; empty: none
  std::string not_executable;  // a file of this name that may not be executed, if there is no other
};

Lookup LookUp(const std::string& name, const Environment& environment, const FileProbe& probe) {
  Lookup lookup;
  std::vector<std::string> candidates;
  if (name.find('/') != std::string::npos) {
    candidates.push_back(name);
  } else if (!name.empty()) {
    for (const std::string& directory : PathDirectories(environment)) candidates.push_back(Join(directory, name));
  }
  for (const std::string& candidate : candidates) {
    const FileState file = probe(candidate);
    if (IsRunnable(file)) {
      lookup.path = candidate;
      return lookup;
    }
    const bool named_directory = file.is_directory && candidate == name;
    const bool plain_file = file.exists && !file.is_directory;
    if (lookup.not_executable.empty() && (plain_file || named_directory)) lookup.not_executable = candidate;
  }
  return lookup;
}

Interpreter Chosen(const std::string& path, const std::string& why) {
  return {path, "python is " + OneLine(path) + ": " + why};
}

// The directory and the one above it, by their names alone: a link belongs to where it lies.
std::string Plain(const std::filesystem::path& directory) {
  const std::string plain = directory.lexically_normal().string();
  return plain.size() > 1 && plain.ends_with('/') ? plain.substr(0, plain.size() - 1) : plain;
}
std::string Above(const std::string& directory) { return Plain(std::filesystem::path(directory) / ".."); }

std::string FirstOnPath(const Environment& environment, const FileProbe& probe) {
  for (const std::string& directory : PathDirectories(environment)) {
    std::string path = PythonIn(directory, probe);
    if (!path.empty()) return path;
  }
  return "";
}

// The variable of the activated environment to which this python belongs; empty: none.
std::string ActiveEnvironment(const std::string& python, const Environment& environment) {
  const std::string directory = Plain(std::filesystem::path(python).parent_path());
  for (const char* variable : {"VIRTUAL_ENV", "CONDA_PREFIX"}) {
    const std::string prefix = ValueOf(environment, variable);
    if (!prefix.empty() && Plain(Join(prefix, "bin")) == directory) return variable;
  }
  return "";
}

// The directory of the path as called, of a link itself; empty: not known.
std::string DirectoryOf(const std::string& called_as, const Environment& environment, const FileProbe& probe) {
  const bool by_path = called_as.find('/') != std::string::npos;
  const std::string path = by_path ? called_as : LookUp(called_as, environment, probe).path;
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "" : path.substr(0, slash + 1);
}

bool IsOfAnEnvironment(const std::string& directory, const FileProbe& probe) {
  return std::any_of(std::begin(kEnvironmentMarks), std::end(kEnvironmentMarks),
                     [&](const char* mark) { return probe(Join(Above(directory), mark)).exists; });
}

ProgramCheck Fail(int exit_code, std::string problem) { return {exit_code, std::move(problem), ""}; }

ProgramCheck CheckInterpreter(const Interpreter& interpreter, const Environment& environment,
                              const FileProbe& probe) {
  if (interpreter.path.empty()) return Fail(kExitNotFound, interpreter.reason);
  const Lookup lookup = LookUp(interpreter.path, environment, probe);
  if (!lookup.path.empty()) return {0, "", lookup.path};
  if (!lookup.not_executable.empty()) {
    return Fail(kExitNotExecutable, "the interpreter " + OneLine(lookup.not_executable) +
                                        " may not be executed here (" + interpreter.reason + ")");
  }
  return Fail(kExitNotFound,
              "the interpreter " + OneLine(interpreter.path) + " does not exist (" + interpreter.reason + ")");
}

// No problem if the interpreter can read the script.
ProgramCheck CheckScript(const std::string& script, const FileProbe& probe) {
  if (script == "-") return {};  // python reads its standard input
  const FileState file = probe(script);
  if (!file.exists) {
    return Fail(kExitNotFound, "the script " + OneLine(script) +
                                   " does not exist; give its path relative to the working directory");
  }
  if (file.is_directory) {
    if (probe(Join(script, "__main__.py")).readable) return {};
    return Fail(kExitNotExecutable,
                "the script " + OneLine(script) + " is a directory without a readable __main__.py");
  }
  if (!file.readable)
    return Fail(kExitNotExecutable, "the script " + OneLine(script) + " may not be read by this user");
  return {};
}

ProgramCheck CheckExecutable(const std::string& program, const Environment& environment, const FileProbe& probe) {
  const Lookup lookup = LookUp(program, environment, probe);
  if (!lookup.path.empty()) return {0, "", lookup.path};
  if (!lookup.not_executable.empty()) {
    const bool directory = probe(lookup.not_executable).is_directory;
    return Fail(kExitNotExecutable, "the program " + OneLine(lookup.not_executable) +
                                        (directory ? " is a directory" : " is not executable: chmod +x it") +
                                        (directory ? "" : ", or leave --no-python out if it is a Python script"));
  }
  const bool by_path = program.find('/') != std::string::npos;
  std::string problem = "the program " + OneLine(program) + (by_path ? " does not exist" : " is not on PATH");
  if (!by_path && !program.empty() && probe(program).exists)
    problem += ": for the one in this directory write ./" + OneLine(program);
  return Fail(kExitNotFound, problem);
}

}  // namespace

FileState ProbeFile(const std::string& path) {
  struct stat info;
  if (stat(path.c_str(), &info) != 0) return {};
  FileState file;
  file.exists = true;
  file.is_directory = S_ISDIR(info.st_mode);
  file.changed_ns = absl::ToUnixNanos(absl::TimeFromTimespec(info.st_mtim));
  file.readable = faccessat(AT_FDCWD, path.c_str(), R_OK, AT_EACCESS) == 0;
  file.executable = faccessat(AT_FDCWD, path.c_str(), X_OK, AT_EACCESS) == 0;
  return file;
}

Interpreter ChooseInterpreter(const Environment& environment, const InterpreterOptions& options,
                              const FileProbe& probe) {
  if (!options.python_flag.empty()) return Chosen(options.python_flag, "set by --python");
  const std::string from_environment = ValueOf(environment, "PYTHON_EXEC");
  if (!from_environment.empty()) return Chosen(from_environment, "set by PYTHON_EXEC");
  if (const std::string caller = ValueOf(environment, kCallerPython); !caller.empty()) {
    const std::string path = LookUp(caller, environment, probe).path;
    return Chosen(path.empty() ? caller : path, "it is that of the launcher, or of python -m muster");
  }

  const std::string on_path = FirstOnPath(environment, probe);
  const std::string active = ActiveEnvironment(on_path, environment);
  if (!active.empty()) return Chosen(on_path, "$" + active + " is active");
  const std::string directory = DirectoryOf(options.called_as, environment, probe);
  const std::string beside = directory.empty() ? "" : PythonIn(directory, probe);
  if (!beside.empty() && IsOfAnEnvironment(directory, probe)) {
    return Chosen(beside, "muster was called from its environment, " + OneLine(Above(directory)));
  }
  if (!on_path.empty()) return Chosen(on_path, "it is the first on PATH");
  if (!beside.empty()) return Chosen(beside, "it is in the same folder as muster");
  return {
      "",
      "no python or python3 was found on PATH or in muster's folder: install one, activate its environment, or "
      "pass --python or PYTHON_EXEC"};
}

ProgramCheck CheckProgram(ProgramKind kind, const std::string& target, const Interpreter& interpreter,
                          const Environment& environment, const FileProbe& probe) {
  if (kind == ProgramKind::kProgram) return CheckExecutable(target, environment, probe);
  ProgramCheck python = CheckInterpreter(interpreter, environment, probe);
  if (python.exit_code != 0 || kind == ProgramKind::kModule) return python;
  const ProgramCheck script = CheckScript(target, probe);
  return script.exit_code != 0 ? script : python;
}

}  // namespace muster::machine
