// What the workers run: which python, and whether it and the program can be started at all. Checked before
// joining, so that a node that cannot start says so to everybody instead of failing each round. Pure, over a probe
// of files.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/exit_codes.h"

namespace muster::machine {

using Environment = std::map<std::string, std::string>;

// One path, as this process would meet it.
struct FileState {
  bool exists = false;
  bool is_directory = false;
  bool readable = false;
  bool executable = false;  // for a directory: may be entered
};

using FileProbe = std::function<FileState(const std::string& path)>;

// Asks the kernel (stat, faccessat with the effective ids). Relative paths are of the current directory.
FileState ProbeFile(const std::string& path);

struct Interpreter {
  std::string path;    // as it will be executed; empty: none was found
  std::string reason;  // "python is /venv/bin/python: beside muster itself", for one info line
};

struct InterpreterOptions {
  std::string python_flag;  // --python; empty: not given
  std::string called_as;    // argv[0]: where our own binary was called by a path
};

// PYTHON_EXEC, else --python, else the python beside our own binary if we were called by a path, else
// $VIRTUAL_ENV, else $CONDA_PREFIX, else the first python or python3 on PATH. The first two stand as they are
// said, even if they are not there (CheckProgram tells); of the others only what is there and executable counts.
Interpreter ChooseInterpreter(const Environment& environment, const InterpreterOptions& options,
                              const FileProbe& probe);

enum class ProgramKind {
  kScript,   // a file for the interpreter, or a directory or archive with a __main__
  kModule,   // -m: the interpreter looks for it
  kProgram,  // --no-python: executed itself, looked for on PATH as a shell does
};

struct ProgramCheck {
  int exit_code = 0;    // 0, kExitNotExecutable or kExitNotFound
  std::string problem;  // one line; empty if exit_code is 0
  std::string path;  // what is to be executed: interpreter or program, with a slash; empty if there is a problem
};

// Whether `target` can be started. `interpreter` is not looked at for kProgram.
ProgramCheck CheckProgram(ProgramKind kind, const std::string& target, const Interpreter& interpreter,
                          const Environment& environment, const FileProbe& probe);

}  // namespace muster::machine
