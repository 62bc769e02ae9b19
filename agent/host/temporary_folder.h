// Where the host's own short-lived files go.
#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace muster::host {

std::string TemporaryFolder();  // $TMPDIR, or /tmp; it need not be there

// <parent>/<name><random>, for this user alone. The error names the parent.
absl::StatusOr<std::string> MakeFolderIn(const std::string& parent, const std::string& name);

}  // namespace muster::host
