// The smallest worker there is: says when its first instruction ran (CLOCK_BOOTTIME, nanoseconds) and for whom, then
// waits, or exits at once if BENCH_EXIT is set. Static, so that nothing but muster is measured.
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

int main(void) {
  struct timespec now;
  clock_gettime(CLOCK_BOOTTIME, &now);
  char line[200];
  const char* rank = getenv("RANK");
  const char* restart = getenv("TORCHELASTIC_RESTART_COUNT");
  const int size = snprintf(line, sizeof(line), "%lld %d %s %s\n",
                            (long long)now.tv_sec * 1000000000LL + now.tv_nsec, (int)getpid(), rank ? rank : "-",
                            restart ? restart : "-");
  const int fd = open(getenv("BENCH_LOG"), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0 || write(fd, line, (size_t)size) != size) return 1;
  if (getenv("BENCH_EXIT") != NULL) return 0;
  for (;;) pause();
}
