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

// The Python with which the launcher's program is started: the word in front of -m, the one that its first line
// names, or the one beside it; empty: none of these, or the launcher is muster's own link. Blocking: reads the
// file.
std::string PythonOf(const InnerLauncher& launcher, const machine::Environment& environment);

// Becomes the launcher, in this process. in_front: options of muster, for the muster that it executes in the end.
// python: as ChooseInterpreter takes --python. Returns only an error: NotFound, PermissionDenied or Internal.
absl::Status BecomeLauncher(const InnerLauncher& launcher, const std::map<std::string, std::string>& in_front,
                            const std::string& python, const std::string& called_as,
                            const machine::Environment& environment);

}  // namespace muster::cli
