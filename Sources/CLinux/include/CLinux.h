#pragma once

// Functions that only Linux has, or that Swift's Glibc module does not import. A port replaces this target.

#include <stdbool.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/types.h>

/// Names the calling thread for `ps -L` and debuggers. Keeps at most 15 bytes.
void clinux_name_thread(const char *name);

/// openat2(2) with RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS: the path cannot leave `directory`, not even by symbolic
/// links. Returns -1 and sets errno on failure: ENOSYS if the kernel has no openat2.
int clinux_open_beneath(int directory, const char *path, int flags, mode_t mode);

/// Opens the file of `descriptor` again with O_DIRECT, to write past the page cache. -1 if that is not possible.
int clinux_reopen_direct(int descriptor);

/// fallocate(2) with KEEP_SIZE for the first `size` bytes. Returns 0 or an errno.
int clinux_reserve(int descriptor, off_t size);

/// fallocate(2) with PUNCH_HOLE and KEEP_SIZE: bytes from `start` to `end` occupy no space any more, and read as zeros.
/// Returns 0 or an errno.
int clinux_release(int descriptor, off_t start, off_t end);

/// posix_spawn_file_actions_addclosefrom_np(3): the child inherits no descriptor from `first` on. Returns 0 or an
/// errno. `actions` is a posix_spawn_file_actions_t. It is untyped because including spawn.h here would put its types
/// into this module.
int clinux_close_from(void *actions, int first);

/// Starts `program`, which is searched in PATH, in a process group of its own, so that Ctrl-C in a terminal does not reach
/// it. The child gets `signal` when the calling thread ends (PR_SET_PDEATHSIG), inherits no descriptor beyond standard
/// error, reads an empty standard input, and writes to standard error only. Returns its process id; -1 and errno if no
/// process could be started. A child whose program cannot be run exits with 127.
pid_t clinux_start_child(const char *program, char *const arguments[], char *const environment[], int signal);

/// renameat2(2) with RENAME_NOREPLACE, within one directory. Returns 0 or an errno.
int clinux_rename_exclusive(int directory, const char *from, const char *to);

/// Locks bytes of the file, or all from `position` on if `length` is 0, until this open file description is closed
/// (F_OFD_SETLK). Returns 0 or an errno, at once.
int clinux_lock_bytes(int descriptor, off_t position, off_t length);

/// Releases the locks of this open file description on these bytes, or on all from `position` on if `length` is 0
/// (F_OFD_SETLK). Returns 0 or an errno. Closing the descriptor is not enough: between fork and exec a child of this
/// process shares the open file description.
int clinux_unlock_bytes(int descriptor, off_t position, off_t length);

/// accept4(2) with SOCK_CLOEXEC: no child inherits the connection. Returns -1 and sets errno on failure.
int clinux_accept(int listener);

/// The type of the file system of `descriptor`, as in statfs(2). 0 on failure.
long clinux_file_system(int descriptor);

/// syncfs(2). Returns 0 or an errno.
int clinux_sync_file_system(int descriptor);

/// The offset of the first hole of a file, which may be its end (lseek(2), SEEK_HOLE). INT64_MAX if lseek fails.
int64_t clinux_first_hole(int descriptor);

/// Waits for write-back of the file that is in progress (sync_file_range(2)). Returns 0, or the errno of a write-back
/// error since the file was opened that this descriptor has not reported yet.
int clinux_wait_for_writeback(int descriptor);

/// Properties of a connection's network path, from TCP_INFO.
struct clinux_path {
    /// The smallest round trip so far, in microseconds. 0 if unknown.
    uint32_t round_trip;
    /// The current round trip as estimated from received data, including queues, in microseconds. 0 if unknown.
    uint32_t received_round_trip;
    /// The number of packets received out of order.
    uint32_t out_of_order;
    /// The current limit of the receive window, in bytes (tcpi_rcv_ssthresh).
    uint32_t window;
};

/// Returns 0, or -1 if `socket` is not a TCP connection or the kernel is too old to report all values (before 5.4).
int clinux_read_path(int socket, struct clinux_path *path);

/// The bytes that the peer has sent on a connection and this host has acknowledged (TCP_INFO). 0 on failure.
int64_t clinux_received(int socket);

/// SIOCOUTQ: the bytes that were sent on a connection and that the peer has not acknowledged. 0 on failure.
int clinux_unacknowledged(int socket);

/// SO_RCVBUF: the size of the socket's receive buffer in bytes. 0 on failure.
int clinux_receive_buffer(int socket);

/// SO_BUF_LOCK (Linux 5.15): the kernel does not grow the receive buffer while `is_held`.
void clinux_hold_receive_buffer(int socket, bool is_held);

/// TCP_WINDOW_CLAMP: limits the receive window to `bytes`. A larger window that was advertised before remains valid.
void clinux_bound_window(int socket, int bytes);

/// FIONREAD: the number of received bytes that wait in the socket to be read. 0 on failure.
int clinux_waiting(int socket);

/// wcwidth(3) of a Unicode scalar, independent of the user's locale: 2 for a wide character, 0 for a combining mark, -1
/// for a scalar that is not printable. Always 1 on a system without the locale C.UTF-8.
int clinux_columns(uint32_t scalar);
