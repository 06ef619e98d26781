import CHaulLinux
import Foundation
import Glibc
import Synchronization

/// A program under test: started with a clean signal mask, signalled, and always reaped, also when the tests crash.
package final class ChildProcess: Sendable {
    package struct Missing: Error, CustomStringConvertible { package let description: String }

    package let id: Int32
    private let program: String
    private let directory = TemporaryDirectory()
    /// What waitpid said, once it has ended.
    private let status = Mutex<Int32?>(nil)

    /// `program` is a path, a product of this package, or found in PATH.
    package init(_ program: String, _ arguments: [String], environment: [String: String] = [:], input: String = "")
        throws
    {
        guard let path = Self.path(of: program) else {
            throw Missing(description: "\(program) is missing: run deploy/test.sh, which installs what the tests need")
        }
        self.program = program
        try Data(input.utf8).write(to: URL(fileURLWithPath: directory.file("in")))
        var actions = posix_spawn_file_actions_t()
        posix_spawn_file_actions_init(&actions)
        posix_spawn_file_actions_addopen(&actions, 0, directory.file("in"), O_RDONLY, 0)
        posix_spawn_file_actions_addopen(&actions, 1, directory.file("out"), O_WRONLY | O_CREAT | O_APPEND, 0o600)
        posix_spawn_file_actions_addopen(&actions, 2, directory.file("err"), O_WRONLY | O_CREAT | O_APPEND, 0o600)
        // Nothing else is inherited: a connection that another test closes would live on in this child, and its other side
        // would wait for the end.
        clinux_close_from(&actions, 3)
        // Threads of Swift's runtime block signals, and a child would inherit that: SIGTERM would not reach it.
        var attributes = posix_spawnattr_t()
        posix_spawnattr_init(&attributes)
        var none = sigset_t()
        sigemptyset(&none)
        posix_spawnattr_setsigmask(&attributes, &none)
        var all = sigset_t()
        sigfillset(&all)
        posix_spawnattr_setsigdefault(&attributes, &all)
        var flags = POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF
        if let group = Lifeline.group {
            posix_spawnattr_setpgroup(&attributes, group)
            flags |= POSIX_SPAWN_SETPGROUP
        }
        posix_spawnattr_setflags(&attributes, Int16(flags))
        let merged = ProcessInfo.processInfo.environment.merging(environment) { $1 }
        var argv: [UnsafeMutablePointer<CChar>?] = ([path] + arguments).map { strdup($0) } + [nil]
        var envp: [UnsafeMutablePointer<CChar>?] = merged.map { strdup("\($0)=\($1)") } + [nil]
        defer {
            for pointer in argv + envp { free(pointer) }
            posix_spawn_file_actions_destroy(&actions)
            posix_spawnattr_destroy(&attributes)
        }
        var child = pid_t()
        let code = posix_spawn(&child, path, &actions, &attributes, &argv, &envp)
        guard code == 0 else {
            throw Missing(description: "\(program) does not start: \(String(cString: strerror(code)))")
        }
        id = child
    }

    deinit {
        guard isRunning else { return }
        Glibc.kill(id, SIGKILL)
        var code: Int32 = 0
        waitpid(id, &code, 0)
    }

    package var isRunning: Bool {
        status.withLock { status in
            guard status == nil else { return false }
            var code: Int32 = 0
            guard waitpid(id, &code, WNOHANG) == id else { return true }
            status = code
            return false
        }
    }

    package func kill(_ signal: Int32) { if isRunning { Glibc.kill(id, signal) } }

    /// What it has printed so far.
    package var standardOutput: String { text("out") }
    package var standardError: String { text("err") }

    private func text(_ name: String) -> String { String(decoding: directory.contents(name) ?? [], as: UTF8.self) }

    /// Waits for its end, at most `limit`, and returns its exit status; 128 + n if signal n ended it.
    package func wait(within limit: Duration = .seconds(60)) async throws -> Int32 {
        try await eventually("the end of \(program)", within: limit) { !self.isRunning }
        let code = status.withLock { $0! }
        return code & 0x7f == 0 ? (code >> 8) & 0xff : 128 + (code & 0x7f)
    }

    /// Where a program is: a path, a product of this package, or in PATH.
    package static func path(of program: String) -> String? {
        if program.contains("/") { return FileManager.default.isExecutableFile(atPath: program) ? program : nil }
        // Products of the package lie beside the test bundle.
        let bundle = ProcessInfo.processInfo.arguments.first { $0.hasSuffix(".xctest") } ?? CommandLine.arguments[0]
        let products = URL(fileURLWithPath: bundle).deletingLastPathComponent().path
        let places =
            [products] + (ProcessInfo.processInfo.environment["PATH"] ?? "").split(separator: ":").map(String.init)
        return places.map { $0 + "/" + program }.first { FileManager.default.isExecutableFile(atPath: $0) }
    }
}
