// How the plan reads a file with a secret.
#pragma once

#include <cstddef>
#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "base/io/secret_file.h"

namespace muster::cli {

// ReadSecretFile.
using SecretReader =
    std::function<absl::StatusOr<SecretFile>(const std::string& path, FileKind kind, size_t max_bytes)>;

}  // namespace muster::cli
