// An archive of Python files, judged by Python.
#pragma once

#include <unistd.h>

#include <cstdlib>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/io/owned_fd.h"

namespace muster {

// The exit code of this code with the archive's path as its argument. zipfile checks every header and the
// checksum, zipimport is what will read it.
inline int Python(const std::string& code, const OwnedFd& archive) {
  const std::string path = absl::StrCat("/proc/", getpid(), "/fd/", archive.get());
  return std::system(absl::StrCat("python3 -c \"", code, "\" ", path).c_str());
}

}  // namespace muster
