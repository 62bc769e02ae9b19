// A worker that writes as fast as it can: flood BYTES FILE. Lines as a training's; how long it took and how much
// processor time, in nanoseconds, goes to FILE.
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static long now_ns(clockid_t clock) {
  struct timespec ts;
  clock_gettime(clock, &ts);
  return ts.tv_sec * 1000000000L + ts.tv_nsec;
}

int main(int argc, char** argv) {
  static char block[65536];
  size_t size = 0;
  if (argc != 3) return 64;
  while (size + 128 < sizeof(block)) {
    size += (size_t)sprintf(block + size, "epoch 3 step %zu loss 0.1234 lr 1e-4 tokens/s 123456\n", size);
  }
  const long begin = now_ns(CLOCK_MONOTONIC);
  for (long left = atol(argv[1]); left > 0;) {
    const ssize_t put = write(1, block, size);
    if (put < 0) return 1;
    left -= put;
  }
  const long end = now_ns(CLOCK_MONOTONIC);
  FILE* file = fopen(argv[2], "w");
  if (file == NULL) return 1;
  fprintf(file, "%ld %ld\n", end - begin, now_ns(CLOCK_PROCESS_CPUTIME_ID));
  return fclose(file) == 0 ? 0 : 1;
}
