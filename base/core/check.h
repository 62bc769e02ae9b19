// MUSTER_CHECK: aborts if an invariant of the program does not hold, in release builds too. Bad input and failures
// of the machine are reported by absl::Status instead. (Debian's Abseil has no absl/log.)
#pragma once

#include <cstdio>
#include <cstdlib>

#define MUSTER_CHECK(condition, what)                                                                   \
  do {                                                                                                  \
    if (!(condition)) {                                                                                 \
      std::fprintf(stderr, "muster: internal error at %s:%d: %s (%s)\n", __FILE_NAME__, __LINE__, what, \
                   #condition);                                                                         \
      std::abort();                                                                                     \
    }                                                                                                   \
  } while (false)
