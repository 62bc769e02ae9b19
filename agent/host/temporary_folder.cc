#include "agent/host/temporary_folder.h"

#include <cerrno>
#include <cstdlib>

namespace muster::host {

std::string TemporaryFolder() {
  const char* const folder = std::getenv("TMPDIR");
  return folder != nullptr && *folder != '\0' ? folder : "/tmp";
}

absl::StatusOr<std::string> MakeFolderIn(const std::string& parent, const std::string& name) {
  std::string path = parent + "/" + name + std::string(6, 'X');  // mkdtemp puts six random letters there
  if (mkdtemp(path.data()) == nullptr) return absl::ErrnoToStatus(errno, "making a folder in " + parent);
  return path;
}

}  // namespace muster::host
