import Glibc
import HaulContract
import HaulHTTP
import HaulTerminal
import Synchronization

/// The cookies that servers set during a command, for a file in Netscape's format.
final class CookieFile: Sendable {
    private let path: String
    private let cookies: Mutex<[StoredCookie]>

    /// - Parameter known: The cookies of `--cookie`, which are saved as well.
    init(_ path: String, known: [StoredCookie]) {
        self.path = path
        cookies = Mutex(known)
    }

    func record(_ head: ResponseHead) {
        let lines = head.headers.all("set-cookie")
        guard !lines.isEmpty, let url = WebURL(head.url) else { return }
        let now = UnixTime.seconds
        cookies.withLock { cookies in
            for cookie in lines.compactMap({ StoredCookie(field: $0, from: url, at: now) }) {
                cookies.removeAll { $0.isSameCookie(as: cookie) }
                cookies.append(cookie)
            }
        }
    }

    /// Writes the file anew; only its owner can read it.
    ///
    /// - Throws: `ExitStatus.jobFailed`; the reason has been printed.
    func save() throws {
        let now = UnixTime.seconds
        let lines = cookies.withLock { $0.filter { !$0.isPast(at: now) }.map(\.line) }
        let text = (["# Netscape HTTP Cookie File"] + lines).joined(separator: "\n") + "\n"
        // Under another name first, so that a crash leaves no half of it. A device or a pipe has no other name.
        let isSpecial = GetTarget.isSpecialFile(path)
        let written = path == "-" ? "/dev/stdout" : isSpecial ? path : "\(path).\(getpid())"
        let descriptor = open(written, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else { throw failure() }
        let count = text.withCString { write(descriptor, $0, strlen($0)) }
        guard close(descriptor) == 0, count == text.utf8.count,
            path == "-" || isSpecial || rename(written, path) == 0
        else { throw failure() }
    }

    private func failure() -> ExitStatus {
        .printing(.jobFailed, "the cookies cannot be written to \(path): \(String(cString: strerror(errno)))")
    }
}
