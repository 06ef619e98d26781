import Glibc
import HaulContract
import HaulHTTP
import HaulTerminal
import Synchronization

/// The cookies that servers set during a command, for a file in Netscape's format.
final class CookieFile: Sendable {
    /// What browsers keep at least (RFC 6265 section 6.1).
    private static let (maxOfDomain, maxCount) = (50, 3000)

    private let path: String
    private struct Cookies {
        /// Those of `--cookie`, which no server pushes out.
        var known: [StoredCookie]
        var set: [StoredCookie] = []
    }
    private let cookies: Mutex<Cookies>

    /// - Parameter known: The cookies of `--cookie`, which are saved as well.
    init(_ path: String, known: [StoredCookie]) {
        self.path = path
        cookies = Mutex(Cookies(known: known))
    }

    func record(_ head: ResponseHead) {
        let lines = head.headers.all("set-cookie")
        guard !lines.isEmpty, let url = WebURL(head.url) else { return }
        let (now, isPlain) = (UnixTime.seconds, url.scheme != "https")
        cookies.withLock { cookies in
            for cookie in lines.compactMap({ StoredCookie(field: $0, from: url, at: now) }) {
                if isPlain, (cookies.known + cookies.set).contains(where: cookie.overlays) { continue }
                cookies.known.removeAll { $0.isSameCookie(as: cookie) }
                cookies.set.removeAll { $0.isSameCookie(as: cookie) }
                cookies.set.append(cookie)
                // The oldest ones go.
                if cookies.set.count(where: { $0.hasSameDomain(as: cookie) }) > Self.maxOfDomain,
                    let oldest = cookies.set.firstIndex(where: { $0.hasSameDomain(as: cookie) })
                {
                    cookies.set.remove(at: oldest)
                }
                if cookies.set.count > Self.maxCount { cookies.set.removeFirst() }
            }
        }
    }

    /// Writes the file anew; only its owner can read it.
    ///
    /// - Throws: `ExitStatus.jobFailed`; the reason has been printed.
    func save() throws {
        let now = UnixTime.seconds
        let lines = cookies.withLock { ($0.known + $0.set).filter { !$0.isPast(at: now) }.map(\.line) }
        let text = (["# Netscape HTTP Cookie File"] + lines).joined(separator: "\n") + "\n"
        // A device or a pipe has no other name.
        guard path == "-" || GetTarget.isSpecialFile(path) else { return try replace(by: text) }
        // Standard output may be a file, which has been written up to an offset, or a socket.
        try write(text, to: path == "-" ? dup(STDOUT_FILENO) : open(path, O_WRONLY | O_CLOEXEC))
    }

    /// Writes another file first, so that a crash leaves no half of the text under the name.
    private func replace(by text: String) throws {
        let name = "\(path).\(String(UInt64.random(in: 0...(.max)), radix: 16))"
        // Neither a file that another user has made is opened, nor is a link followed.
        let descriptor = open(name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0o600)
        do {
            try write(text, to: descriptor)
            guard rename(name, path) == 0 else { throw failure() }
        } catch {
            if descriptor >= 0 { unlink(name) }
            throw error
        }
    }

    private func write(_ text: String, to descriptor: Int32) throws {
        guard descriptor >= 0 else { throw failure() }
        let count = text.withCString { Glibc.write(descriptor, $0, strlen($0)) }
        let error = errno
        guard close(descriptor) == 0, count == text.utf8.count else {
            if count < 0 { errno = error }
            throw failure()
        }
    }

    private func failure() -> ExitStatus {
        .printing(.jobFailed, "the cookies cannot be written to \(path): \(String(cString: strerror(errno)))")
    }
}
