#include "agent/host/error_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>

namespace muster::host {

std::string ParseErrorFile(const std::string& content) {
  const auto json = nlohmann::json::parse(content, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object() || !json.contains("message")) return "";
  const nlohmann::json* message = &json["message"];
  if (message->is_object() && message->contains("message")) message = &(*message)["message"];
  return message->is_string() ? message->get<std::string>() : "";
}

ErrorFiles::~ErrorFiles() {
  for (int i = 0; i < files_; ++i) unlink(PathOf(i).c_str());
  if (!folder_.empty()) rmdir(folder_.c_str());
}

std::string ErrorFiles::Prepare(int local_rank) {
  if (!tried_) {
    tried_ = true;
    const char* const parent = std::getenv("TMPDIR");
    std::string pattern = std::string(parent != nullptr && *parent != '\0' ? parent : "/tmp") + "/muster-XXXXXX";
    if (mkdtemp(pattern.data()) != nullptr) folder_ = pattern;
  }
  if (folder_.empty()) return "";
  files_ = std::max(files_, local_rank + 1);
  unlink(PathOf(local_rank).c_str());
  return PathOf(local_rank);
}

// Non-blocking and never through a link: the worker may have put anything there.
std::string ErrorFiles::Read(int local_rank) const {
  if (folder_.empty()) return "";
  const int fd = open(PathOf(local_rank).c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
  if (fd < 0) return "";
  std::string content(kMaxErrorFileBytes + 1, '\0');
  const ssize_t got = read(fd, content.data(), content.size());
  close(fd);
  if (got <= 0 || static_cast<size_t>(got) > kMaxErrorFileBytes) return "";
  content.resize(static_cast<size_t>(got));
  return ParseErrorFile(content);
}

std::string ErrorFiles::PathOf(int local_rank) const {
  return folder_ + "/error-" + std::to_string(local_rank) + ".json";
}

}  // namespace muster::host
