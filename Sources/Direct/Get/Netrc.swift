import HaulTerminal

/// Users and passwords by host, from a netrc file as ftp(1), curl and wget read it.
struct Netrc: Sendable {
    private var hosts: [String: (user: String, password: String)] = [:]
    /// The entry `default`, for all other hosts.
    private var fallback: (user: String, password: String)?

    /// - Throws: `ExitStatus.usage` if the file cannot be read; the reason has been printed.
    init(_ path: String) throws { self.init(lines: try TextFile.lines(of: path)) }

    init(lines: [String]) {
        // Of the entry that is being read: nil before the first one, and .some(nil) for `default`.
        var host: String??
        var (user, password) = ("", "")
        func end(_ netrc: inout Netrc) {
            guard let host, !user.isEmpty else { return }
            // The first entry of a host counts.
            if let host {
                if netrc.hosts[host] == nil { netrc.hosts[host] = (user, password) }
            } else if netrc.fallback == nil {
                netrc.fallback = (user, password)
            }
        }
        var words = Self.words(lines)[...]
        while let word = words.popFirst() {
            switch word {
            case "machine", "default":
                end(&self)
                host = .some(word == "default" ? nil : words.popFirst()?.lowercased())
                (user, password) = ("", "")
            case "login": user = words.popFirst() ?? ""
            case "password": password = words.popFirst() ?? ""
            case "account": _ = words.popFirst()
            default: break
            }
        }
        end(&self)
    }

    func login(for host: String) -> (user: String, password: String)? { hosts[host] ?? fallback }

    /// Words separated by spaces or tabs, or in double quotes. Comments and macros are left out.
    private static func words(_ lines: [String]) -> [String] {
        var words: [String] = []
        var isMacro = false
        for line in lines {
            if line.allSatisfy(\.isWhitespace) { isMacro = false }
            if isMacro { continue }
            var rest = line[...]
            while let first = rest.first {
                if first == " " || first == "\t" {
                    rest.removeFirst()
                    continue
                }
                if first == "#" { break }
                var word = ""
                if first == "\"" {
                    rest.removeFirst()
                    while let next = rest.popFirst(), next != "\"" {
                        word.append(next == "\\" ? rest.popFirst() ?? next : next)
                    }
                } else {
                    while let next = rest.first, next != " ", next != "\t" { word.append(rest.removeFirst()) }
                }
                if word == "macdef" {
                    isMacro = true
                    break
                }
                words.append(word)
            }
        }
        return words
    }
}
