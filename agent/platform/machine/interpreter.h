// Chooses the Python of the workers and checks that it and the program can be started. The check precedes joining,
// so that a node that cannot start them reports it to the whole job instead of failing in each round. Pure, over a
// probe of files.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/exit_codes.h"

namespace muster::machine {

using Environment = std::map<std::string, std::string>;

// The state of a path for this process.
struct FileState {
  bool exists = false;
  bool is_directory = false;
  bool readable = false;
  bool executable = false;  // for a directory: it may be entered
  int64_t changed_ns = 0;   // time of the last change of its content, in ns since 1970
};

using FileProbe = std::function<FileState(const std::string& path)>;

// Queries the kernel (stat, faccessat with the effective ids). Relative paths start at the current directory.
FileState ProbeFile(const std::string& path);

struct Interpreter {
  std::string path;    // as it will be executed; empty: none was found
  std::string reason;  // "python is /venv/bin/python: it is the first on PATH", for one info line
};

struct InterpreterOptions {
  std::string python_flag;  // --python; empty: not given
  std::string called_as;    // argv[0]; without a slash it was found on PATH
};

// Path of the Python that has called muster, or that of another launcher whose work muster does: they set it.
inline constexpr char kCallerPython[] = "MUSTER_CALLER_PYTHON";

// Returns --python, else PYTHON_EXEC, else kCallerPython, else the first python or python3 on PATH if it lies in
// the bin of $VIRTUAL_ENV or $CONDA_PREFIX, else the one beside muster if muster was called from a virtual
// environment or one of conda, else the first on PATH, else the one beside muster. A link to muster belongs to
// where it lies: pipx and uv install links. The first three are taken without a check (CheckProgram reports
// errors); of the others only executable files count.
Interpreter ChooseInterpreter(const Environment& environment, const InterpreterOptions& options,
                              const FileProbe& probe);

enum class ProgramKind {
  kScript,   // a file for the interpreter, or a directory or archive with a __main__
  kModule,   // -m: the interpreter finds the module
  kProgram,  // --no-python: executed itself, found on PATH as by a shell
};

struct ProgramCheck {
  int exit_code = 0;    // 0, kExitNotExecutable or kExitNotFound
  std::string problem;  // one line; empty if exit_code is 0
  std::string path;     // the file to execute, interpreter or program, with a slash; empty if there is a problem
};

// Checks whether `target` can be started. Ignores `interpreter` for kProgram.
ProgramCheck CheckProgram(ProgramKind kind, const std::string& target, const Interpreter& interpreter,
                          const Environment& environment, const FileProbe& probe);

}  // namespace muster::machine
