// A library may open a descriptor in a static constructor, as gRPC does for an eventfd. If standard input were
// closed, that descriptor would have number 0, and each worker would inherit it as its standard input. Code in
// main() runs too late to prevent this. So the address of OpenStandardDescriptors() is in .preinit_array, whose
// functions the loader calls before all constructors, also those of shared libraries.
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
