import Glibc
import HaulTerminal

/// A file of settings: lines `option = value`, by the names of the options. A line that begins with `#` is a comment.
struct SettingsFile {
    struct Entry {
        let option: OptionTable.Option
        let value: String
        let line: Int
        /// The value is the path of a file whose text is the setting.
        let isPath: Bool
    }

    let path: String
    let entries: [Entry]

    /// - Throws: `ExitStatus.usage` at the first line that is wrong; the reason has been printed.
    init(_ path: String, for table: OptionTable) throws {
        guard let text = Self.text(of: path) else {
            throw ExitStatus.printing(
                .usage, "the file of settings, \(path), cannot be read: \(String(cString: strerror(errno)))")
        }
        self.path = path
        var entries: [Entry] = []
        for (index, line) in text.split(separator: "\n", omittingEmptySubsequences: false).enumerated() {
            guard let entry = try Self.entry(String(line), at: "\(path):\(index + 1)", index + 1, table) else {
                continue
            }
            if !entry.option.isRepeating, let first = entries.first(where: { $0.option.name == entry.option.name }) {
                throw ExitStatus.printing(
                    .usage, "\(path):\(entry.line): \(entry.option.name) is already set in line \(first.line)")
            }
            entries.append(entry)
        }
        self.entries = entries
    }

    private static func entry(
        _ line: String, at location: String, _ number: Int, _ table: OptionTable
    ) throws -> Entry? {
        let line = trimmed(line)
        guard !line.isEmpty, !line.hasPrefix("#") else { return nil }
        guard let sign = line.firstIndex(of: "=") else {
            throw ExitStatus.printing(.usage, "\(location): \"\(line)\" is not a setting: write option = value")
        }
        let name = trimmed(String(line[..<sign]))
        let value = trimmed(String(line[line.index(after: sign)...]))
        if let option = table.option(name) { return Entry(option: option, value: value, line: number, isPath: false) }
        if name.hasSuffix("-file"), let option = table.option(name.dropLast(5)), !option.isFlag {
            return Entry(option: option, value: value, line: number, isPath: true)
        }
        let near = Suggestion.nearest(to: name, among: table.options.map(\.name)).map { " Did you mean \($0)?" } ?? ""
        throw ExitStatus.printing(.usage, "\(location): \"\(name)\" is not an option of haul \(table.command).\(near)")
    }

    /// At most 1 MiB, UTF-8; nil with `errno` if it cannot be read.
    static func text(of path: String) -> String? {
        let descriptor = open(path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { return nil }
        defer { close(descriptor) }
        var bytes = [UInt8](repeating: 0, count: 1 << 20)
        var count = 0
        while count < bytes.count {
            let more = bytes.withUnsafeMutableBytes { read(descriptor, $0.baseAddress! + count, $0.count - count) }
            if more == 0 { break }
            guard more > 0 else { return nil }
            count += more
        }
        return String(decoding: bytes[..<count], as: UTF8.self)
    }

    static func trimmed(_ text: String) -> String {
        let isSpace: (Character) -> Bool = { $0 == " " || $0 == "\t" || $0 == "\r" || $0 == "\r\n" || $0 == "\n" }
        guard let first = text.firstIndex(where: { !isSpace($0) }), let last = text.lastIndex(where: { !isSpace($0) })
        else { return "" }
        return String(text[first...last])
    }
}
