import Glibc
import HaulTerminal

/// Where files go: an absolute directory without symbolic links, and a path in it.
enum GetTarget {
    static func isDirectory(_ path: String) -> Bool {
        if isBucket(path), !path.dropFirst(5).contains("/") { return true }
        var status = stat()
        return path.hasSuffix("/") || stat(path, &status) == 0 && status.st_mode & S_IFMT == S_IFDIR
    }

    /// Whether `path` is a device, a pipe or a socket. A download must not replace it: other programs use it.
    static func isSpecialFile(_ path: String) -> Bool {
        var status = stat()
        return stat(path, &status) == 0 && ![S_IFREG, S_IFDIR].contains(status.st_mode & S_IFMT)
    }

    /// Whether `path` is a pipe or a character device, which takes bytes in their order and keeps none. A disk does not
    /// count, so that a mistyped path does not overwrite it.
    static func isStream(_ path: String) -> Bool {
        var status = stat()
        return stat(path, &status) == 0 && [S_IFIFO, S_IFCHR].contains(status.st_mode & S_IFMT)
    }

    /// Whether `path` is in an object store: `s3://BUCKET/PREFIX`.
    static func isBucket(_ path: String) -> Bool { path.hasPrefix("s3://") }

    /// The absolute path of the directory without symbolic links, or the bucket. Missing directories are made.
    ///
    /// - Parameter made: Records those that are made.
    /// - Throws: `ExitStatus.usage` if the directory cannot be made or written; the reason has been printed.
    static func absolute(_ path: String, _ made: MadeDirectories? = nil) throws -> String {
        guard !isBucket(path) else {
            let name = path.dropFirst(5)
            return "s3://" + name.prefix(upTo: name.lastIndex { $0 != "/" }.map(name.index(after:)) ?? name.startIndex)
        }
        let missing = makeDirectories(path, mode: 0o777)
        made?.record(missing)
        guard let real = realpath(path, nil) else {
            throw ExitStatus.printing(
                .usage, "\(path): \(String(cString: strerror(errno))); name a directory that can be made")
        }
        defer { free(real) }
        var status = stat()
        guard stat(real, &status) == 0, status.st_mode & S_IFMT == S_IFDIR else {
            throw ExitStatus.printing(.usage, "\(path): Not a directory; name a directory that can be made")
        }
        guard access(real, W_OK | X_OK) == 0 else {
            throw ExitStatus.printing(
                .usage, "nothing can be written to \(path): \(String(cString: strerror(errno))); name another directory"
            )
        }
        return String(cString: real)
    }

    /// Makes `path` and the missing directories above it, and returns those that it has made. Errors are ignored: the
    /// caller notices them when it uses `path`.
    @discardableResult static func makeDirectories(_ path: String, mode: mode_t) -> [String] {
        guard access(path, F_OK) != 0 else { return [] }
        var made: [String] = []
        var prefix = path.hasPrefix("/") ? "/" : ""
        for part in path.split(separator: "/") {
            prefix += part + "/"
            if mkdir(prefix, mode) == 0 { made.append(prefix) }
        }
        return made
    }

    /// The directory and the path that `-d` and `-o` give together. Without both: the current directory, and no path.
    static func of(
        directory: String?, output: String?, _ made: MadeDirectories? = nil
    ) throws -> (root: String, path: String?) {
        if let directory {
            guard let output else { return (try absolute(directory, made), nil) }
            return (try absolute(directory, made), output)
        }
        guard let output else { return (try absolute(".", made), nil) }
        guard !isDirectory(output) else { return (try absolute(output, made), nil) }
        let parts = output.split(separator: "/", omittingEmptySubsequences: false)
        let folder = parts.dropLast().joined(separator: "/")
        return (
            try absolute(output.contains("/") ? (folder.isEmpty ? "/" : folder) : ".", made),
            parts.last.map(String.init)
        )
    }
}
