#pragma once

// What only Linux has, or what Swift's Glibc module does not show. A port replaces this target.

#include <stdbool.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/types.h>

/// A thread's name as `ps -L` and debuggers show it; at most 15 bytes are kept.
void clinux_name_thread(const char *name);

/// openat2(2) with RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS: nothing above `directory` is reached, whatever links lie on
/// the way. -1 and errno on failure; ENOSYS where the kernel has no openat2.
int clinux_open_beneath(int directory, const char *path, int flags, mode_t mode);

/// Opens the file behind `descriptor` once more, for writing past the page cache; -1 where that is not possible.
int clinux_reopen_direct(int descriptor);

/// fallocate(2) with KEEP_SIZE for the first `size` bytes; 0 or errno.
int clinux_reserve(int descriptor, off_t size);

/// posix_spawn_file_actions_addclosefrom_np(3): the child inherits no descriptor from `first` on; 0 or an error.
/// `actions` is a posix_spawn_file_actions_t: to include spawn.h here would make its types this module's.
int clinux_close_from(void *actions, int first);

/// renameat2(2) with RENAME_NOREPLACE, within one directory; 0 or errno.
int clinux_rename_exclusive(int directory, const char *from, const char *to);

/// Locks a byte of the file for this open description (F_OFD_SETLK), until that is closed; 0 or errno, without a wait.
int clinux_lock_byte(int descriptor, off_t position);

/// Ends all locks of this open description (F_OFD_SETLK); 0 or errno. To close the descriptor is not enough: a child of
/// this process shares the description between its fork and its exec.
int clinux_unlock_bytes(int descriptor);

/// accept4(2): a connection that no child inherits; -1 and errno on failure.
int clinux_accept(int listener);

/// The kind of file system that `descriptor` is on, as in statfs(2); 0 on failure.
long clinux_file_system(int descriptor);

/// syncfs(2); 0 or errno.
int clinux_sync_file_system(int descriptor);

/// Where the first hole of a file is, which may be its end (lseek(2), SEEK_HOLE). The largest number where nobody can say.
int64_t clinux_first_hole(int descriptor);

/// Waits for what is being written of a file. 0, or the errno of what of it has been lost since it was opened, unless this
/// descriptor has told of it.
int clinux_wait_for_writeback(int descriptor);

/// What TCP_INFO tells of a connection's way: microseconds, 0 if unknown, and packets that came out of order.
struct clinux_path {
    /// The least that was seen.
    uint32_t round_trip;
    /// As the other side's data shows it now, with the queues that it meets.
    uint32_t received_round_trip;
    uint32_t out_of_order;
    /// Bytes that the other side may send before it hears from us again.
    uint32_t window;
};

/// 0, or -1 where `socket` is no TCP connection or the kernel is too old (before 5.4) to tell all of it.
int clinux_look_at_path(int socket, struct clinux_path *path);

/// SO_RCVBUF: bytes of the socket's receive buffer; 0 on failure.
int clinux_receive_buffer(int socket);

/// SO_BUF_LOCK (Linux 5.15): the kernel does not let the receive buffer grow while `is_held`.
void clinux_hold_receive_buffer(int socket, bool is_held);

/// TCP_WINDOW_CLAMP: the other side may send no more than so many bytes beyond those that were read, as soon as it has sent
/// what it was allowed before.
void clinux_bound_window(int socket, int bytes);

/// Bytes that wait in the socket to be read.
int clinux_waiting(int socket);

/// wcwidth(3) of a Unicode scalar, whatever the user's locale is: 2 for a wide character, 0 for a mark that joins the one before
/// it, -1 for what has no glyph; 1 on a system without the locale C.UTF-8.
int clinux_columns(uint32_t scalar);
