// Preloaded into a worker: a low-water mark of a socket (SO_RCVLOWAT) is heard, and not set. So a worker is measured with and without it.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <sys/socket.h>

int setsockopt(int descriptor, int level, int name, const void *value, socklen_t size) {
    if (level == SOL_SOCKET && name == SO_RCVLOWAT) return 0;
    int (*next)(int, int, int, const void *, socklen_t) =
        (int (*)(int, int, int, const void *, socklen_t))dlsym(RTLD_NEXT, "setsockopt");
    return next(descriptor, level, name, value, size);
}
