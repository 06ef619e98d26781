import Glibc

extension TextFile {
    /// The first MiB of a file; nil, with `errno` set, if it cannot be read.
    package static func read(_ path: String) -> String? {
        guard let file = fopen(path, "re") else { return nil }
        defer { fclose(file) }
        var bytes = [UInt8](repeating: 0, count: 1 << 20)
        let count = fread(&bytes, 1, bytes.count, file)
        guard ferror(file) == 0 else { return nil }
        return String(decoding: bytes[..<count], as: UTF8.self)
    }
}
