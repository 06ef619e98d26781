import Glibc
import HaulContract
import HaulHTTP
import HaulTerminal

/// The cookies of `--cookie`: pairs for the servers of the URLs, and cookie files, whose lines name their servers.
struct GetCookies: Sendable {
    private var pairs: [String] = []
    private(set) var stored: [StoredCookie] = []

    /// - Throws: `ExitStatus.usage` if a file cannot be read; the reason has been printed.
    init(_ options: [String]) throws {
        for option in options {
            // As in curl: an argument with a "=" is a cookie, any other one a file.
            guard !option.contains("=") else {
                pairs += option.split(separator: ";").map(String.init)
                continue
            }
            for (number, line) in try TextFile.lines(of: option).enumerated() {
                do throws(StoredCookie.Unreadable) {
                    guard let cookie = try StoredCookie(line: line), !cookie.isPast(at: UnixTime.seconds) else {
                        continue
                    }
                    stored.append(cookie)
                } catch {
                    throw ExitStatus.printing(
                        .usage,
                        "\(option), line \(number + 1): not a cookie in Netscape's format (seven fields separated by tabs)"
                    )
                }
            }
        }
    }

    func jar(for urls: [String]) -> CookieJar {
        var jar = CookieJar(stored)
        guard !pairs.isEmpty else { return jar }
        for url in urls.compactMap(WebURL.init) { for pair in pairs { jar.set(pair, from: url) } }
        return jar
    }
}
