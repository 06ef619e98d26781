import Glibc
import HaulContract
import HaulHTTP
import HaulTerminal

/// Users and passwords of servers: `--user`, `--bearer`, and the entries of a netrc file.
package struct GetCredentials: Sendable {
    private let login: (user: String, password: String)?
    private let bearer: String?
    private let netrc: Netrc?

    /// Asks on the terminal for the password if `--user` has none.
    ///
    /// - Throws: `ExitStatus.usage`; the reason has been printed.
    package init(_ options: RequestOptions) throws {
        bearer = options.bearer
        login = try options.user.map { text in
            let parts = text.split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false).map(String.init)
            return (parts[0], try parts.count > 1 ? parts[1] : Self.ask("Password of \(parts[0]): "))
        }
        if let file = options.netrcFile {
            netrc = try Netrc(file)
        } else if options.netrc {
            guard
                let home = Environment.text("NETRC")
                    ?? Environment.text("HOME").map({ $0 + "/.netrc" })
            else { throw ExitStatus.printing(.usage, "there is no home directory: name the file with --netrc-file") }
            netrc = try Netrc(home)
        } else {
            netrc = nil
        }
    }

    /// The URL with the credentials for its host, unless it has its own.
    package func apply(to url: String) -> String { apply(login, to: url) }

    /// The same, only with those that a netrc file has for the host.
    func applyNetrc(to url: String) -> String { apply(nil, to: url) }

    private func apply(_ login: (user: String, password: String)?, to url: String) -> String {
        guard login != nil || netrc != nil, let address = WebURL(url), address.login == nil,
            let login = login ?? netrc?.login(for: address.host), let scheme = url.byteRange(of: "://")
        else { return url }
        return url[..<scheme.upperBound] + PercentEncoding.component(login.user) + ":"
            + PercentEncoding.component(login.password) + "@"
            + url[scheme.upperBound...]
    }

    /// Headers to add to those of the job.
    var headers: [(String, String)] { bearer.map { [("Authorization", "Bearer \($0)")] } ?? [] }

    /// Reads a line from the terminal without echo.
    private static func ask(_ question: String) throws -> String {
        let terminal = open("/dev/tty", O_RDWR | O_CLOEXEC)
        guard terminal >= 0 else {
            throw ExitStatus.printing(
                .usage, "--user has no password, and there is no terminal to ask for it: give USER:PASSWORD")
        }
        defer { close(terminal) }
        return HiddenInput.hiding(on: terminal) {
            defer { _ = write(terminal, "\n", 1) }
            _ = question.withCString { write(terminal, $0, strlen($0)) }
            var line: [UInt8] = []
            var byte: UInt8 = 0
            while read(terminal, &byte, 1) == 1, byte != 10 { line.append(byte) }
            return String(decoding: line, as: UTF8.self)
        }
    }
}
