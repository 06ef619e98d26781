// To be preloaded into a worker: ignores the low-water mark of sockets (SO_RCVLOWAT), to measure a worker without it.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <sys/socket.h>

int setsockopt(int descriptor, int level, int name, const void *value, socklen_t size) {
    if (level == SOL_SOCKET && name == SO_RCVLOWAT) return 0;
    int (*next)(int, int, int, const void *, socklen_t) =
        (int (*)(int, int, int, const void *, socklen_t))dlsym(RTLD_NEXT, "setsockopt");
    return next(descriptor, level, name, value, size);
}
