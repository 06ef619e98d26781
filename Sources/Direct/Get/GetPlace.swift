import Glibc
import HaulTerminal

/// Where files go: a directory without links, and a path in it.
enum GetPlace {
    static func isDirectory(_ path: String) -> Bool {
        if isBucket(path), !path.dropFirst(5).contains("/") { return true }
        var status = stat()
        return path.hasSuffix("/") || stat(path, &status) == 0 && status.st_mode & S_IFMT == S_IFDIR
    }

    /// A device, a pipe or a socket: a file that takes its place would be in everybody's way.
    static func isOfAnotherKind(_ path: String) -> Bool {
        var status = stat()
        return stat(path, &status) == 0 && ![S_IFREG, S_IFDIR].contains(status.st_mode & S_IFMT)
    }

    /// A place in an object store: `s3://BUCKET/PREFIX`.
    static func isBucket(_ path: String) -> Bool { path.hasPrefix("s3://") }

    /// The directory's path without links, or the bucket; the directory and those above it are made if they are not there. Throws `.usage`
    /// with a sentence if that cannot be, or nothing can be written there.
    static func absolute(_ path: String) throws -> String {
        guard !isBucket(path) else {
            let name = path.dropFirst(5)
            return "s3://" + name.prefix(upTo: name.lastIndex { $0 != "/" }.map(name.index(after:)) ?? name.startIndex)
        }
        makeDirectories(path, mode: 0o777)
        guard let real = realpath(path, nil) else {
            throw ExitStatus.because(
                .usage, "\(path): \(String(cString: strerror(errno))); name a directory that can be made")
        }
        defer { free(real) }
        var status = stat()
        guard stat(real, &status) == 0, status.st_mode & S_IFMT == S_IFDIR else {
            throw ExitStatus.because(.usage, "\(path): Not a directory; name a directory that can be made")
        }
        guard access(real, W_OK | X_OK) == 0 else {
            throw ExitStatus.because(
                .usage, "nothing can be written to \(path): \(String(cString: strerror(errno))); name another directory"
            )
        }
        return String(cString: real)
    }

    /// Makes `path` and what is missing above it; whoever uses it finds out what could not be made.
    static func makeDirectories(_ path: String, mode: mode_t) {
        var made = path.hasPrefix("/") ? "/" : ""
        for part in path.split(separator: "/") {
            made += part + "/"
            mkdir(made, mode)
        }
    }

    /// The directory and the path that `-d` and `-o` say together; without both the current directory, and no path.
    static func of(directory: String?, output: String?) throws -> (root: String, path: String?) {
        if let directory {
            guard let output else { return (try absolute(directory), nil) }
            return (try absolute(directory), output)
        }
        guard let output else { return (try absolute("."), nil) }
        guard !isDirectory(output) else { return (try absolute(output), nil) }
        let parts = output.split(separator: "/", omittingEmptySubsequences: false)
        let folder = parts.dropLast().joined(separator: "/")
        return (
            try absolute(output.contains("/") ? (folder.isEmpty ? "/" : folder) : "."), parts.last.map(String.init)
        )
    }
}
