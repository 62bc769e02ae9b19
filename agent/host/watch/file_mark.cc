#include "agent/host/watch/file_mark.h"

#include <sys/stat.h>

namespace muster::host {

FileMark MarkOf(const std::string& path) {
  struct stat info = {};
  if (stat(path.c_str(), &info) != 0) return std::nullopt;
  return FileMark({info.st_mtim.tv_sec, info.st_mtim.tv_nsec, info.st_size, info.st_ino});
}

}  // namespace muster::host
