import HaulContract
import HaulTerminal

/// Checksums by file name. A line of a list is `<hex>  <name>` (sha256sum) or `SHA256 (<name>) = <hex>` (BSD).
struct ChecksumFile {
    private var checksums: [String: Job.Checksum] = [:]

    /// - Throws: `ExitStatus.usage` if a file cannot be read, has no checksum, or has two for one name; the reason has
    ///   been printed.
    init(files: [String], _ lists: GetLists) throws {
        for file in files {
            let before = checksums.count
            for line in try lists.lines(of: file) {
                guard let (name, checksum) = Self.read(line) else { continue }
                if let other = checksums.updateValue(checksum, forKey: name), other.algorithm == checksum.algorithm,
                    other != checksum
                {
                    throw ExitStatus.printing(
                        .usage,
                        "\(TextFile.name(file)) has two different checksums for \(name), and one of them is wrong: remove that line"
                    )
                }
            }
            guard checksums.count > before else {
                throw ExitStatus.printing(.usage, "\(TextFile.name(file)) has no line like \"<checksum>  <file name>\"")
            }
        }
    }

    var isEmpty: Bool { checksums.isEmpty }

    /// The checksum of the file at `path`. If the list does not have the whole path, its last component is looked up.
    func checksum(of path: String) -> Job.Checksum? {
        checksums[path] ?? path.split(separator: "/").last.flatMap { checksums[String($0)] }
    }

    /// nil if the line has no checksum: a comment, or the armour of a signature.
    static func read(_ line: String) -> (name: String, checksum: Job.Checksum)? {
        if let open = line.byteRange(of: " ("), let close = line.byteRange(of: ") = "),
            open.upperBound <= close.lowerBound
        {
            let algorithm = line[..<open.lowerBound].lowercased().replacing("-", with: "")
            let checksum = Job.Checksum("\(algorithm):\(line[close.upperBound...])")
            return checksum.map { (bare(String(line[open.upperBound..<close.lowerBound])), $0) }
        }
        let digits = line.prefix { $0.isHexDigit }
        let rest = line[digits.endIndex...]
        // Two spaces, or a space and the mark `*` of a binary file.
        guard rest.hasPrefix("  ") || rest.hasPrefix(" *"), rest.count > 2 else { return nil }
        let algorithm = Job.Checksum.Algorithm.allCases.first { $0.hexadecimalDigits == digits.count }
        let checksum = algorithm.flatMap { Job.Checksum("\($0.rawValue):\(digits)") }
        return checksum.map { (bare(String(rest.dropFirst(2))), $0) }
    }

    private static func bare(_ name: String) -> String { name.hasPrefix("./") ? String(name.dropFirst(2)) : name }
}
