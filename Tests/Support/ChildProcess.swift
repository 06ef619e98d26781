import CHaulLinux
import Foundation
import Glibc
import Synchronization

/// A program under test. It starts with a clean signal mask, and is killed and reaped with its last reference. If the
/// tests crash, `Lifeline` kills it.
package final class ChildProcess: Sendable {
    package struct Missing: Error, CustomStringConvertible { package let description: String }

    package let id: Int32
    private let program: String
    private let directory = TemporaryDirectory()
    /// The status from waitpid. nil while the process has not been reaped.
    private let status = Mutex<Int32?>(nil)

    /// - Parameter program: A path, a product of this package, or a name in PATH.
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
        // The child inherits no other descriptors. Otherwise a connection that another test closes would stay open in
        // the child, and its peer would never see the end.
        clinux_close_from(&actions, 3)
        // Threads of Swift's runtime block signals. A child would inherit the mask, and SIGTERM would not reach it.
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

    /// Whether a signal has stopped the process, and nothing has continued it.
    package var isStopped: Bool {
        let status = FileManager.default.contents(atPath: "/proc/\(id)/stat") ?? Data()
        return String(decoding: status, as: UTF8.self).contains(") T ")
    }

    package func kill(_ signal: Int32) { if isRunning { Glibc.kill(id, signal) } }

    /// The output so far.
    package var standardOutput: String { text("out") }
    package var standardError: String { text("err") }

    private func text(_ name: String) -> String { String(decoding: directory.contents(name) ?? [], as: UTF8.self) }

    /// Waits until the process ends, at most `limit`. Returns its exit status, or 128 + n if signal n ended the
    /// process.
    package func wait(within limit: Duration = .seconds(60)) async throws -> Int32 {
        try await eventually("the end of \(program)", within: limit) { !self.isRunning }
        let code = status.withLock { $0! }
        return code & 0x7f == 0 ? (code >> 8) & 0xff : 128 + (code & 0x7f)
    }

    /// The path of a program, which is a path, a product of this package, or a name in PATH.
    package static func path(of program: String) -> String? {
        if program.contains("/") { return FileManager.default.isExecutableFile(atPath: program) ? program : nil }
        // Another build of the command, such as a release build: a test of a debug build alone says little about it.
        if program == "haul", let other = ProcessInfo.processInfo.environment["HAUL"] { return path(of: other) }
        // SwiftPM puts products of the package beside the test bundle.
        let bundle = ProcessInfo.processInfo.arguments.first { $0.hasSuffix(".xctest") } ?? CommandLine.arguments[0]
        let products = URL(fileURLWithPath: bundle).deletingLastPathComponent().path
        let places =
            [products] + (ProcessInfo.processInfo.environment["PATH"] ?? "").split(separator: ":").map(String.init)
        return places.map { $0 + "/" + program }.first { FileManager.default.isExecutableFile(atPath: $0) }
    }
}
