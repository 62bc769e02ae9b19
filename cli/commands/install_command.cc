// `muster install PATH`: copies this very binary, for an init container whose image holds nothing else.
#include <fcntl.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <random>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/core/status_macros.h"
#include "base/io/owned_fd.h"
#include "base/io/whole_file.h"
#include "cli/commands/commands.h"
#include "cli/commands/help.h"
#include "cli/options/command_line.h"

namespace muster::cli {
namespace {

constexpr char kOurselves[] = "/proc/self/exe";
constexpr char kName[] = "muster";  // in a folder
constexpr mode_t kMode = 0755;
constexpr size_t kChunkBytes = 1 << 20;

absl::Status Fault(const std::string& path) {
  return absl::FailedPreconditionError(absl::StrCat("cannot write ", path, ": ", std::strerror(errno)));
}

bool IsFolder(const std::string& path) {
  struct stat info {};
  return stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
}

// The file is replaced by a rename, which asks nobody: so a device would be lost as well.
absl::Status CheckReplaceable(const std::string& path) {
  struct stat info {};
  if (lstat(path.c_str(), &info) != 0 || S_ISREG(info.st_mode)) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat(path, ": expected a folder, a regular file or a new name, and this is ",
                   S_ISLNK(info.st_mode) ? "a link" : "a device, a pipe or a socket"));
}

absl::Status CopyOurselves(int out, const std::string& path) {
  const OwnedFd in(open(kOurselves, O_RDONLY | O_CLOEXEC));
  if (!in.valid())
    return absl::InternalError(absl::StrCat("cannot read ", kOurselves, ": ", std::strerror(errno)));
  while (true) {
    const ssize_t copied = sendfile(out, in.get(), nullptr, kChunkBytes);
    if (copied < 0 && errno == EINTR) continue;
    if (copied < 0) return Fault(path);
    if (copied == 0) break;
  }
  // The file system may report what it could not write only now.
  return fchmod(out, kMode) == 0 && fsync(out) == 0 ? absl::OkStatus() : Fault(path);
}

// A program that executes the path meanwhile finds the old file or the whole new one.
absl::Status InstallAt(const std::string& path) {
  const std::string beside = absl::StrCat(path, ".", absl::Hex(std::random_device{}()), ".tmp");
  const OwnedFd out(open(beside.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, kMode));
  if (!out.valid()) return Fault(path);
  absl::Status done = CopyOurselves(out.get(), path);
  if (done.ok() && rename(beside.c_str(), path.c_str()) != 0) done = Fault(path);
  if (!done.ok()) unlink(beside.c_str());
  return done;
}

}  // namespace

std::string InstallHelp() {
  return R"(Usage: muster install PATH

Copies this program to PATH, or into the folder PATH under the name muster. For
an init container that hands the binary to the training container through a
volume, from an image that holds nothing else:

  command: [/muster, install, /run/muster]
)";
}

int InstallCommand(const Invocation& invocation) {
  const auto line = ParseCommandLine({}, invocation.arguments, "muster install");
  if (!line.ok()) return Complain(line.status());
  if (line->help) return Print(InstallHelp());
  if (line->script.empty() || !line->script_arguments.empty()) {
    return Complain(absl::InvalidArgumentError("expected one PATH (see muster install --help)"));
  }
  if (const absl::Status usable = CheckLink(line->script); !usable.ok()) {
    return Complain(absl::FailedPreconditionError(usable.message()));
  }
  const std::string path = IsFolder(line->script) ? absl::StrCat(line->script, "/", kName) : line->script;
  if (const absl::Status replaceable = CheckReplaceable(path); !replaceable.ok()) return Complain(replaceable);
  if (const absl::Status installed = InstallAt(path); !installed.ok()) return Complain(installed);
  return Print(absl::StrCat(path, "\n"));
}

}  // namespace muster::cli
