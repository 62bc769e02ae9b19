// Python files that are part of the binary, as an interpreter can import them. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace muster {

struct ArchivedFile {
  std::string_view name, content;
};

// A ZIP archive of these files, not compressed: an interpreter without zlib can import it.
std::string StoredArchive(const std::vector<ArchivedFile>& files);

}  // namespace muster
