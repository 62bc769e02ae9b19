// A constructor of a library may open a descriptor for itself: gRPC makes an eventfd. If standard input were
// closed, that would be descriptor 0, and each worker would get it as its standard input. main() is too late to
// prevent this, so the loader is told to call OpenStandardDescriptors() first, by .preinit_array: that comes
// before all constructors of the program, and of shared libraries, too.
#include "base/proc/standard_descriptors.h"

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace muster {

// System calls without their wrappers, and no instrumentation: a sanitizer has not set itself up yet.
__attribute__((no_sanitize("address"), no_sanitize("thread"), no_sanitize("undefined"))) void
OpenStandardDescriptors() {
  for (long fd = 0; fd <= 2; ++fd) {
    if (syscall(SYS_fcntl, fd, F_GETFD) >= 0) continue;
    (void)syscall(SYS_openat, AT_FDCWD, "/dev/null", fd == 0 ? O_RDONLY : O_WRONLY);
  }
}

namespace {

__attribute__((section(".preinit_array"), used)) void (*open_before_constructors)() = &OpenStandardDescriptors;

}  // namespace
}  // namespace muster
