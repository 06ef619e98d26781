import Glibc

/// A library to preload into a worker. It stops or kills the worker right before one of the calls by which a file gets
/// its name. Calls count from the time at which the test arms the library.
package final class CommitSteps: Sendable {
    private let directory = TemporaryDirectory()

    package init() async throws {
        let clang = try ChildProcess(
            "clang", ["-shared", "-fPIC", "-x", "c", "-", "-o", directory.file("steps.so")], input: Self.source)
        guard try await clang.wait() == 0 else { throw ChildProcess.Missing(description: clang.standardError) }
    }

    /// The environment of a worker that gets `signal` right before its call number `step` after `arm(name)`.
    ///
    /// - Parameters:
    ///   - deniesLinks: Whether every linkat fails with EPERM, as on a file system without hard links.
    ///   - countsWrites: Whether write and pwrite to any file count as calls, too, and calls for every other hidden name.
    package func environment(
        _ name: String, step: Int, signal: Int32, deniesLinks: Bool = false, countsWrites: Bool = false
    ) -> [String: String] {
        var result = [
            "LD_PRELOAD": directory.file("steps.so"), "STEP_FLAG": directory.file(name), "STEP_AT": String(step),
            "STEP_SIGNAL": String(signal),
        ]
        if deniesLinks { result["STEP_NO_LINKS"] = "1" }
        if countsWrites { result["STEP_WRITES"] = "1" }
        return result
    }

    /// The environment of a program whose listings of directories `listings(name)` counts.
    package func counting(_ name: String) -> [String: String] {
        ["LD_PRELOAD": directory.file("steps.so"), "STEP_LISTINGS": directory.file(name)]
    }

    /// How many directories the program with the environment `counting(name)` has listed. An `opendir` does not count:
    /// stores list the directories of files through descriptors.
    package func listings(_ name: String) -> Int { directory.contents(name)?.count ?? 0 }

    /// From now on the calls of the worker with this `name` count.
    package func arm(_ name: String) { close(open(directory.file(name), O_CREAT | O_WRONLY, 0o600)) }

    private static let source = #"""
        #define _GNU_SOURCE
        #include <ctype.h>
        #include <dirent.h>
        #include <dlfcn.h>
        #include <errno.h>
        #include <fcntl.h>
        #include <signal.h>
        #include <stdarg.h>
        #include <stdatomic.h>
        #include <stdlib.h>
        #include <string.h>
        #include <sys/types.h>
        #include <unistd.h>

        #define REAL(name) ((typeof(&name))dlsym(RTLD_NEXT, #name))

        static void step(void) {
            static atomic_int count;
            const char *flag = getenv("STEP_FLAG"), *at = getenv("STEP_AT"), *number = getenv("STEP_SIGNAL");
            if (!flag || !at || !number || access(flag, F_OK)) return;
            if (atomic_fetch_add(&count, 1) + 1 == atoi(at)) raise(atoi(number));
        }

        // Matches .haul-<sha1>-…, and the files with which a program probes its root only if all writes count.
        static int is_hidden(const char *name) {
            if (getenv("STEP_WRITES") && !strncmp(name, ".haul-", 6)) return 1;
            return !strncmp(name, ".haul-", 6) && isxdigit(name[6]) && strlen(name) > 47 && name[46] == '-';
        }

        int linkat(int from, const char *name, int to, const char *other, int flags) {
            if (getenv("STEP_NO_LINKS")) { errno = EPERM; return -1; }
            if (is_hidden(name)) step();
            return REAL(linkat)(from, name, to, other, flags);
        }

        int renameat(int from, const char *name, int to, const char *other) {
            if (is_hidden(name)) step();
            return REAL(renameat)(from, name, to, other);
        }

        int renameat2(int from, const char *name, int to, const char *other, unsigned flags) {
            if (is_hidden(name)) step();
            return REAL(renameat2)(from, name, to, other, flags);
        }

        int unlinkat(int directory, const char *name, int flags) {
            if (is_hidden(name)) step();
            return REAL(unlinkat)(directory, name, flags);
        }

        int openat(int directory, const char *name, int flags, ...) {
            mode_t mode = 0;
            if (flags & O_CREAT) {
                va_list arguments;
                va_start(arguments, flags);
                mode = va_arg(arguments, mode_t);
                va_end(arguments);
                if (is_hidden(name)) step();
            }
            return REAL(openat)(directory, name, flags, mode);
        }

        DIR *fdopendir(int descriptor) {
            const char *path = getenv("STEP_LISTINGS");
            int counts = path ? open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600) : -1;
            if (counts >= 0) { (void)!REAL(write)(counts, ".", 1); close(counts); }
            return REAL(fdopendir)(descriptor);
        }

        ssize_t write(int file, const void *bytes, size_t count) {
            if (file > 2 && getenv("STEP_WRITES")) step();
            return REAL(write)(file, bytes, count);
        }

        ssize_t pwrite(int file, const void *bytes, size_t count, off_t offset) {
            if (getenv("STEP_WRITES")) step();
            return REAL(pwrite)(file, bytes, count, offset);
        }

        int fsync(int file) { step(); return REAL(fsync)(file); }
        int fdatasync(int file) { step(); return REAL(fdatasync)(file); }
        """#
}
