#define _GNU_SOURCE
#include "CLinux.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <linux/socket.h>
#include <linux/sockios.h>
#include <linux/tcp.h>
#include <locale.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <wchar.h>

void clinux_name_thread(const char *name) {
    char shortened[16];
    strncpy(shortened, name, 15);
    shortened[15] = 0;
    pthread_setname_np(pthread_self(), shortened);
}

int clinux_open_beneath(int directory, const char *path, int flags, mode_t mode) {
    struct open_how how = {
        .flags = (uint64_t)(unsigned)flags | O_CLOEXEC,
        .mode = (flags & O_CREAT) ? mode : 0,
        .resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS,
    };
    // EAGAIN means that a rename raced with the look-up. The kernel expects a retry.
    for (int tries = 0;; tries++) {
        long result = syscall(SYS_openat2, directory, path, &how, sizeof how);
        if (result >= 0 || errno != EAGAIN || tries == 32) return (int)result;
    }
}

int clinux_reopen_direct(int descriptor) {
    char path[40];
    snprintf(path, sizeof path, "/proc/self/fd/%d", descriptor);
    return open(path, O_WRONLY | O_DIRECT | O_CLOEXEC);
}

// A signal, such as one that stops the process, may end the call early.
static int allocate(int descriptor, int mode, off_t start, off_t length) {
    while (fallocate(descriptor, mode, start, length) != 0)
        if (errno != EINTR) return errno;
    return 0;
}

int clinux_reserve(int descriptor, off_t size) { return allocate(descriptor, FALLOC_FL_KEEP_SIZE, 0, size); }

int clinux_release(int descriptor, off_t start, off_t end) {
    return allocate(descriptor, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, start, end - start);
}

int clinux_close_from(void *actions, int first) {
    return posix_spawn_file_actions_addclosefrom_np(actions, first);
}

int clinux_rename_exclusive(int directory, const char *from, const char *to) {
    return renameat2(directory, from, directory, to, RENAME_NOREPLACE) == 0 ? 0 : errno;
}

int clinux_lock_bytes(int descriptor, off_t position, off_t length) {
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = position, .l_len = length};
    return fcntl(descriptor, F_OFD_SETLK, &lock) == 0 ? 0 : errno;
}

int clinux_unlock_bytes(int descriptor, off_t position, off_t length) {
    struct flock lock = {.l_type = F_UNLCK, .l_whence = SEEK_SET, .l_start = position, .l_len = length};
    return fcntl(descriptor, F_OFD_SETLK, &lock) == 0 ? 0 : errno;
}

int clinux_accept(int listener) { return accept4(listener, NULL, NULL, SOCK_CLOEXEC); }

long clinux_file_system(int descriptor) {
    struct statfs status;
    return fstatfs(descriptor, &status) == 0 ? (long)status.f_type : 0;
}

int clinux_sync_file_system(int descriptor) { return syncfs(descriptor) == 0 ? 0 : errno; }

int64_t clinux_first_hole(int descriptor) {
    off_t hole = lseek(descriptor, 0, SEEK_HOLE);
    return hole < 0 ? INT64_MAX : (int64_t)hole;
}

int clinux_wait_for_writeback(int descriptor) {
    return sync_file_range(descriptor, 0, 0, SYNC_FILE_RANGE_WAIT_BEFORE) == 0 ? 0 : errno;
}

int clinux_read_path(int socket, struct clinux_path *path) {
    struct tcp_info info;
    socklen_t length = sizeof info;
    if (getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &length) != 0) return -1;
    if (length < offsetof(struct tcp_info, tcpi_rcv_ooopack) + sizeof info.tcpi_rcv_ooopack) return -1;
    path->round_trip = info.tcpi_min_rtt == ~0u ? info.tcpi_rtt : info.tcpi_min_rtt;
    path->received_round_trip = info.tcpi_rcv_rtt;
    path->out_of_order = info.tcpi_rcv_ooopack;
    path->window = info.tcpi_rcv_ssthresh;
    return 0;
}

int64_t clinux_received(int socket) {
    struct tcp_info info;
    socklen_t length = sizeof info;
    if (getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &length) != 0) return 0;
    if (length < offsetof(struct tcp_info, tcpi_bytes_received) + sizeof info.tcpi_bytes_received) return 0;
    return (int64_t)info.tcpi_bytes_received;
}

int clinux_unacknowledged(int socket) {
    int bytes = 0;
    return ioctl(socket, SIOCOUTQ, &bytes) == 0 ? bytes : 0;
}

void clinux_bound_window(int socket, int bytes) {
    setsockopt(socket, IPPROTO_TCP, TCP_WINDOW_CLAMP, &bytes, sizeof bytes);
}

int clinux_receive_buffer(int socket) {
    int bytes = 0;
    socklen_t length = sizeof bytes;
    return getsockopt(socket, SOL_SOCKET, SO_RCVBUF, &bytes, &length) == 0 ? bytes : 0;
}

void clinux_hold_receive_buffer(int socket, bool is_held) {
    int locks = is_held ? SOCK_RCVBUF_LOCK : 0;
    setsockopt(socket, SOL_SOCKET, SO_BUF_LOCK, &locks, sizeof locks);
}

int clinux_waiting(int socket) {
    int bytes = 0;
    return ioctl(socket, FIONREAD, &bytes) == 0 ? bytes : 0;
}

static locale_t unicode;
static pthread_once_t unicode_once = PTHREAD_ONCE_INIT;
static void make_unicode(void) { unicode = newlocale(LC_CTYPE_MASK, "C.UTF-8", (locale_t)0); }

int clinux_columns(uint32_t scalar) {
    pthread_once(&unicode_once, make_unicode);
    if (unicode == (locale_t)0) return 1;
    locale_t before = uselocale(unicode);
    int columns = wcwidth((wchar_t)scalar);
    uselocale(before);
    return columns;
}

pid_t clinux_start_child(const char *program, char *const arguments[], char *const environment[], int signal_number) {
    pid_t parent = getpid();
    pid_t child = fork();
    if (child != 0) return child;
    // Only calls that are safe after a fork of a process with threads.
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, signal_number);
    if (getppid() != parent) _exit(1);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    for (int number = 1; number < NSIG; number++) signal(number, SIG_DFL);
    int empty = open("/dev/null", O_RDONLY);
    if (empty >= 0) dup2(empty, STDIN_FILENO);
    dup2(STDERR_FILENO, STDOUT_FILENO);
    close_range(STDERR_FILENO + 1, ~0U, 0);
    execvpe(program, arguments, environment);
    _exit(127);
}
