// A library to preload. It shifts the wall clock of its processes by the nanoseconds in the file CHAOS_CLOCK. A new
// value applies at once. All other clocks are unchanged, as when an operator sets the time. (libfaketime also takes
// over sleeps and the timestamps of files, and leaves a shared memory object behind every process that is killed.)
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>

static int (*real)(clockid_t, struct timespec *);
static _Atomic long long *offset;

__attribute__((constructor)) static void begin(void) {
    real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    int file = open(getenv("CHAOS_CLOCK"), O_RDONLY | O_CLOEXEC);
    void *page = mmap(NULL, sizeof *offset, PROT_READ, MAP_SHARED, file, 0);
    if (page == MAP_FAILED) abort();
    offset = page;
}

int clock_gettime(clockid_t id, struct timespec *now) {
    if (!real) begin();
    int status = real(id, now);
    if (status || (id != CLOCK_REALTIME && id != CLOCK_REALTIME_COARSE)) return status;
    long long moved = now->tv_sec * 1000000000LL + now->tv_nsec + atomic_load_explicit(offset, memory_order_relaxed);
    now->tv_sec = moved / 1000000000LL;
    now->tv_nsec = moved % 1000000000LL;
    return 0;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    struct timespec time;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &time);
    now->tv_sec = time.tv_sec;
    now->tv_usec = time.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *now) {
    struct timespec time;
    clock_gettime(CLOCK_REALTIME, &time);
    if (now) *now = time.tv_sec;
    return time.tv_sec;
}
