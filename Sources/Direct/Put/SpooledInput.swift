import Glibc
import HaulTerminal

/// The bytes of standard input or of pipes, in temporary files: only a file can be sent again after an error, and only
/// then a server gets the length and the digest that many of them ask for.
struct SpooledInput: Sendable {
    /// The files to send. Pipes are replaced by their copies; other files are as they were given.
    private(set) var files: [String] = []
    private var scratch: ScratchDirectory?

    /// - Throws: `ExitStatus`; the reason has been printed.
    init(_ paths: some Collection<String>, to url: String, namesFiles: Bool) async throws {
        let names = paths.map { Self.isPipe($0) ? Self.name(of: $0) : nil }
        guard names.contains(where: { $0 != nil }) else {
            files = Array(paths)
            return
        }
        let scratch = try ScratchDirectory(names: names.indices.compactMap { names[$0] })
        self.scratch = scratch
        do {
            for (path, name) in zip(paths, names) {
                guard let name else {
                    files.append(path)
                    continue
                }
                guard !namesFiles || name != Self.standardInput else {
                    throw ExitStatus.printing(
                        .usage, "\(path) has no name to add to \(url): give the whole URL, without / at its end")
                }
                files.append("\(scratch.path)/\(name)")
                try await Self.copy(path, to: "\(scratch.path)/\(name)")
            }
        } catch {
            scratch.remove()
            throw error
        }
    }

    func remove() { scratch?.remove() }

    private static let standardInput = "standard-input"

    private static func isPipe(_ path: String) -> Bool {
        var status = stat()
        return path == "-" || stat(path, &status) == 0 && status.st_mode & S_IFMT == S_IFIFO
    }

    /// A pipe of the shell, like /dev/fd/63, has only a number.
    private static func name(of path: String) -> String {
        let last = path.split(separator: "/").last.map(String.init) ?? ""
        return path == "-" || path.hasPrefix("/dev/") || path.hasPrefix("/proc/") ? standardInput : last
    }

    private static func copy(_ path: String, to target: String) async throws {
        let work = Task { try await copyUntilCancelled(path, to: target) }
        let signals = Signals.cancelling(work)
        defer { signals.cancel() }
        try await work.value
        if work.isCancelled { throw ExitStatus.interrupted }
    }

    private static func copyUntilCancelled(_ path: String, to target: String) async throws {
        func failure(_ what: String, advice: String = "") -> ExitStatus {
            ExitStatus.printing(.usage, "\(what): \(String(cString: strerror(errno)))\(advice)")
        }
        let input = path == "-" ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC)
        guard input >= 0 else { throw failure("\(path) cannot be read") }
        defer { if path != "-" { close(input) } }
        let output = open(target, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0o600)
        guard output >= 0 else { throw failure("\(target) cannot be written") }
        defer { close(output) }
        var buffer = [UInt8](repeating: 0, count: 256 << 10)
        while !Task.isCancelled {
            // Short waits, so that Ctrl-C removes the file.
            var ready = pollfd(fd: input, events: Int16(POLLIN), revents: 0)
            if poll(&ready, 1, 200) == 0 { continue }
            let count = read(input, &buffer, buffer.count)
            if count < 0, errno == EINTR || errno == EAGAIN { continue }
            guard count >= 0 else { throw failure("\(path) cannot be read") }
            if count == 0 { return }
            var rest = buffer[..<count]
            while !rest.isEmpty {
                let written = rest.withUnsafeBytes { write(output, $0.baseAddress, $0.count) }
                guard written > 0 else {
                    throw failure("\(target) cannot be written", advice: "; set TMPDIR to another directory")
                }
                rest = rest.dropFirst(written)
            }
        }
    }
}
