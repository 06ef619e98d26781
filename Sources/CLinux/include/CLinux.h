#pragma once

// What only Linux has, or what Swift's Glibc module does not show. A port replaces this header.

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

/// A thread's name as `ps -L` and debuggers show it; at most 15 bytes are kept.
static inline void clinux_name_thread(const char *name) { pthread_setname_np(pthread_self(), name); }
