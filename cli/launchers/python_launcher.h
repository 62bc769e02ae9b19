// Starts another launcher that is written in Python, with muster in the place of torchrun: python/__main__.py.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "agent/platform/machine/interpreter.h"
#include "base/io/stored_archive.h"
#include "cli/launchers/inner_launcher.h"

namespace muster::cli {

std::vector<ArchivedFile> LauncherFiles();  // those of python/

// The first bytes of a regular file; empty: there is none, or it cannot be read. Blocking.
std::string BeginningOf(const std::string& path);

// The Python with which the launcher's program is started: the word in front of -m, the one that its first line
// names, or, if pip or uv has put it behind a shell, the one beside it; empty: none of these. Blocking: reads the
// file.
std::string PythonOf(const InnerLauncher& launcher, const machine::Environment& environment);

// Becomes the launcher, in this process. in_front: options of muster, for the muster that it executes in the end.
// python: that of a launcher without its own, as ChooseInterpreter takes --python. Returns only an error:
// NotFound, PermissionDenied, Internal, or InvalidArgument for a program that is not Python.
absl::Status BecomeLauncher(const InnerLauncher& launcher, const std::map<std::string, std::string>& in_front,
                            const std::string& python, const std::string& called_as,
                            const machine::Environment& environment);

}  // namespace muster::cli
