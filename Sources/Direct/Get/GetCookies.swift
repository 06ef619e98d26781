import Glibc
import HaulContract
import HaulHTTP
import HaulTerminal

/// The cookies of `--cookie`: texts for the servers of the URLs, and files that say themselves where theirs go.
struct GetCookies: Sendable {
    private var pairs: [String] = []
    private var stored: [StoredCookie] = []

    /// Throws `.usage` with a sentence for a file that cannot be read.
    init(_ options: [String]) throws {
        for option in options {
            // As curl has it: a file's name has no "=".
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
                    throw ExitStatus.because(
                        .usage,
                        "\(option), line \(number + 1): no cookie in Netscape's format (seven fields between tabs)")
                }
            }
        }
    }

    func jar(for urls: [String]) -> CookieJar {
        var jar = CookieJar(stored)
        for url in urls.compactMap(WebURL.init) { for pair in pairs { jar.set(pair, from: url) } }
        return jar
    }
}
