import Glibc
import HaulContract

/// Text files that options name: lists, cookies, netrc.
package enum TextFile {
    /// The size of the largest file that is read, in bytes.
    package static let maxBytes = 64 << 20

    /// Whether the argument is a URL: a file's name has no "://".
    package static func isURL(_ path: String) -> Bool { path.contains("://") }

    /// All bytes of a file, or of standard input for `-`.
    ///
    /// - Throws: `ExitStatus.usage` if it cannot be read or is larger than `maxBytes`; the reason has been printed.
    package static func bytes(of path: String) throws -> [UInt8] {
        let descriptor = path == "-" ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { throw refusal(path) }
        defer { if path != "-" { close(descriptor) } }
        var bytes: [UInt8] = []
        var piece = [UInt8](repeating: 0, count: 64 << 10)
        while true {
            let count = Glibc.read(descriptor, &piece, piece.count)
            if count < 0, errno == EINTR { continue }
            guard count >= 0 else { throw refusal(path) }
            if count == 0 { return bytes }
            bytes += piece[..<count]
            guard bytes.count <= maxBytes else {
                throw ExitStatus.printing(
                    .usage, "\(name(path)) has more than \(maxBytes >> 20) MiB, which is too large")
            }
        }
    }

    /// The lines of a file, without LF or CRLF.
    ///
    /// - Throws: As `bytes(of:)`, and `ExitStatus.usage` if a line is not UTF-8.
    package static func lines(of path: String) throws -> [String] { try lines(try bytes(of: path), of: path) }

    /// The same for bytes that have been read already. `path` is named in errors.
    package static func lines(_ bytes: [UInt8], of path: String) throws -> [String] {
        var lines: [String] = []
        // Editors of Windows begin a file with a byte order mark.
        let bytes = bytes.starts(with: [0xEF, 0xBB, 0xBF]) ? bytes.dropFirst(3) : bytes[...]
        for (number, line) in bytes.split(separator: UInt8(ascii: "\n"), omittingEmptySubsequences: false).enumerated()
        {
            guard let text = String(validating: line.last == 13 ? line.dropLast() : line, as: UTF8.self) else {
                throw ExitStatus.printing(.usage, "\(name(path)), line \(number + 1): not UTF-8 text")
            }
            lines.append(text)
        }
        if lines.last?.isEmpty == true { lines.removeLast() }
        return lines
    }

    /// The file's name for messages. A URL is shown without its secrets.
    package static func name(_ path: String) -> String {
        path == "-" ? "standard input" : isURL(path) ? MaskedURL.keepingQuery(path) : path
    }

    private static func refusal(_ path: String) -> ExitStatus {
        ExitStatus.printing(.usage, "\(name(path)) cannot be read: \(String(cString: strerror(errno)))")
    }
}
