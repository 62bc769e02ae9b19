// CHECK: an invariant of ours that must hold, in release too. Bad input and a failing machine are never a CHECK's
// business: those are absl::Status. (Debian's Abseil has no absl/log.)
#pragma once

#include <cstdio>
#include <cstdlib>

#define MUSTER_CHECK(condition, what)                                                                           \
  do {                                                                                                          \
    if (!(condition)) {                                                                                         \
      std::fprintf(stderr, "muster: internal error at %s:%d: %s (%s)\n", __FILE__, __LINE__, what, #condition); \
      std::abort();                                                                                             \
    }                                                                                                           \
  } while (false)
