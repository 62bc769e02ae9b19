// The smallest worker there is: says when its first instruction ran (CLOCK_BOOTTIME, nanoseconds) and for whom,
// then waits, or exits at once if BENCH_EXIT is set. With BENCH_GAPS it looks at the clock each millisecond and
// writes down (pid, end and length of the gap in nanoseconds) when it did not run for longer. Static, so that
// nothing but muster is measured.
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static long long Now(void) {
  struct timespec now;
  clock_gettime(CLOCK_BOOTTIME, &now);
  return (long long)now.tv_sec * 1000000000LL + now.tv_nsec;
}

static int WatchGaps(const char* path) {
  enum { kPeriodNs = 1000000, kGapNs = 2000000 };
  const int fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0) return 1;
  for (long long last = Now();;) {
    const struct timespec period = {0, kPeriodNs};
    nanosleep(&period, NULL);
    const long long now = Now();
    if (now - last > kGapNs) {
      char line[100];
      const int size = snprintf(line, sizeof(line), "%d %lld %lld\n", (int)getpid(), now, now - last);
      if (write(fd, line, (size_t)size) != size) return 1;
    }
    last = now;
  }
}

int main(void) {
  const long long now = Now();
  char line[200];
  const char* rank = getenv("RANK");
  const char* restart = getenv("TORCHELASTIC_RESTART_COUNT");
  const int size = snprintf(line, sizeof(line), "%lld %d %s %s\n", now, (int)getpid(), rank ? rank : "-",
                            restart ? restart : "-");
  const int fd = open(getenv("BENCH_LOG"), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0 || write(fd, line, (size_t)size) != size) return 1;
  if (getenv("BENCH_EXIT") != NULL) return 0;
  if (getenv("BENCH_GAPS") != NULL) return WatchGaps(getenv("BENCH_GAPS"));
  for (;;) pause();
}
