import Glibc
import HaulContract
import HaulTerminal

/// The file of all records, one on a line. The last complete line of a key counts, and the last line that says which
/// download a file is of. All methods block.
///
/// Any number of processes append to the file. Each appends its lines with one write, and reads what the others have
/// appended since its last read. When a process opens a large file that no other process uses, it removes the lines
/// that no longer count.
struct DownloadLogFile: ~Copyable {
    /// Where the line that counts for a key is in the file.
    private struct Line {
        let key: String
        let bytes: Range<Int>
        let isOpen: Bool
    }

    private let directory: String
    /// A file of at most so many bytes is not compacted. After so many appended bytes, or as many as the file had, it is
    /// opened again, to check whether it should be.
    private let maxBytes: Int
    private var descriptor: Int32 = -1
    /// A descriptor whose shared lock (flock(2)) keeps other processes from compacting the file.
    private var lock: Int32 = -1
    private var isOpened = false
    private var lines: [String: Line] = [:]
    /// The last line of a completed download for each file, by `GetRecord.fileKey`. It counts for as long as no other
    /// download completes the file, even if its own download begins again or is forgotten.
    private var files: [String: Line] = [:]
    /// The offset up to which the file has been read: always the end of a line.
    private var end = 0
    /// What the file is read into; empty until the first read.
    private var piece: [UInt8] = []
    private static let pieceBytes = 64 << 10
    /// Bytes that this process has appended since it opened the file.
    private var appended = 0

    init(in directory: String, maxBytes: Int) { (self.directory, self.maxBytes) = (directory, maxBytes) }

    deinit {
        if descriptor >= 0 { close(descriptor) }
        guard lock >= 0 else { return }
        // Closing is not enough: a child process between its fork and its exec shares the lock, and would keep it.
        flock(lock, LOCK_UN)
        close(lock)
    }

    /// Earlier versions called the log a journal. The file keeps the name, so that they and this one share it.
    private static let name = "journal"
    /// Locked by each process while it uses the log. Downloads are locked in another file (`DownloadLog.lock`).
    private static let lockName = "journal.lock"
    /// How long a completed download is remembered, in milliseconds.
    private static let maxAge: Int64 = 30 * 86_400_000

    // MARK: Lines

    /// A line that removes the record of a key.
    static func removal(of key: String) -> String { GetRecord.start(of: key) + #","gone":true}"# }

    /// The key of a line; nil if the line is cut off: it must begin as each record does and end with `}`.
    private static func key(of line: UnsafeRawBufferPointer) -> String? {
        let start = GetRecord.start.utf8
        let rest = line.dropFirst(start.count)
        guard line.starts(with: start), line.last == UInt8(ascii: "}"),
            let quote = rest.firstIndex(of: UInt8(ascii: "\""))
        else { return nil }
        return String(decoding: rest[..<quote], as: UTF8.self)
    }

    private static func ends(_ line: UnsafeRawBufferPointer, with text: StaticString) -> Bool {
        line.count >= text.utf8CodeUnitCount
            && memcmp(line.baseAddress! + line.count - text.utf8CodeUnitCount, text.utf8Start, text.utf8CodeUnitCount)
                == 0
    }

    private mutating func record(_ line: UnsafeRawBufferPointer, at start: Int) {
        guard let key = Self.key(of: line) else { return }
        if Self.ends(line, with: #","gone":true}"#) {
            lines[key] = nil
        } else if case let isOpen = Self.ends(line, with: #","open":true}"#),
            isOpen || Self.ends(line, with: #","open":false}"#)
        {
            let found = Line(key: key, bytes: start..<start + line.count, isOpen: isOpen)
            lines[key] = found
            if !isOpen, let file = Self.fileKey(of: line) { files[file] = found }
        }
    }

    /// The `GetRecord.fileKey` of a completed download's line. nil if the line has none.
    private static func fileKey(of line: UnsafeRawBufferPointer) -> String? {
        let end = line.count - #"","open":false}"#.utf8.count
        let start = end - 40
        let name = #""file":""#
        guard start > name.utf8.count, line[..<start].suffix(name.utf8.count).elementsEqual(name.utf8) else {
            // Earlier versions did not write it.
            return GetRecord(Array(line))?.fileKey
        }
        return String(decoding: line[start..<end], as: UTF8.self)
    }

    /// When the file of a completed download was last confirmed. All lines are asked, so the line is not parsed: the
    /// member is the last one of this name, and in a string its quotes would be escaped.
    private static func validated(_ line: [UInt8]) -> Int64? {
        let name = Array(#""validated":""#.utf8)
        guard let start = line.indices.last(where: { line[$0...].starts(with: name) }) else { return nil }
        return Int64(String(decoding: line[(start + name.count)...].prefix { $0 != name[0] }, as: UTF8.self))
    }

    /// Reads what this and other processes have appended.
    mutating func catchUp() {
        if !isOpened { openFile() }
        guard descriptor >= 0 else { return }
        while true {
            if piece.isEmpty { piece = [UInt8](repeating: 0, count: Self.pieceBytes) }
            let count = pread(descriptor, &piece, piece.count, off_t(end))
            guard count > 0 else { return }
            // Taken out meanwhile, because `record` changes what has been read.
            let buffer = exchange(&piece, with: [])
            let read = buffer.withUnsafeBytes { bytes in
                var start = 0
                while start < count, let newline = memchr(bytes.baseAddress! + start, 10, count - start) {
                    let stop = bytes.baseAddress!.distance(to: UnsafeRawPointer(newline))
                    record(UnsafeRawBufferPointer(rebasing: bytes[start..<stop]), at: end + start)
                    start = stop + 1
                }
                return start
            }
            end += read
            if count == buffer.count {
                // A line may be longer than the buffer: then it is read again into a larger one.
                piece = [UInt8](repeating: 0, count: read == 0 ? buffer.count * 4 : 1 << 20)
                continue
            }
            // Most reads bring the few lines that were appended since the last one.
            if buffer.count == Self.pieceBytes { piece = buffer }
            if read == 0 { return }
        }
    }

    private func text(_ line: Line) -> [UInt8] {
        var bytes = [UInt8](repeating: 0, count: line.bytes.count)
        let count = pread(descriptor, &bytes, bytes.count, off_t(line.bytes.lowerBound))
        return count == bytes.count ? bytes : []
    }

    mutating func record(_ key: String) -> GetRecord? {
        catchUp()
        return known(key)
    }

    /// The record of a download, as of the last `catchUp`.
    func known(_ key: String) -> GetRecord? {
        guard var record = lines[key].flatMap({ GetRecord(text($0)) }) else { return nil }
        // Another download may have replaced the file since, with one of the same size, date and inode.
        if let file = record.fileKey, let owner = files[file], owner.key != key { record.completed = nil }
        return record
    }

    /// Whether a download has completed a file, as of the last `catchUp`.
    func hasOwner(of file: String) -> Bool { files[file] != nil }

    /// The record of the download that completed a file last.
    mutating func owner(of file: String) -> GetRecord? {
        catchUp()
        return files[file].flatMap { GetRecord(text($0)) }
    }

    mutating func records(areOpen: Bool) -> [GetRecord] {
        catchUp()
        return lines.values.filter { $0.isOpen == areOpen }.compactMap { GetRecord(text($0)) }
    }

    /// Appends whole lines, each with its newline. Returns 0, or the errno of what could not be written.
    mutating func append(_ text: [UInt8], isDurable: Bool) -> Int32 {
        // The file is read again then. As often as it doubles, so that its lines are read a bounded number of times.
        if !isOpened || appended > max(maxBytes, end - appended) { openFile() }
        appended += text.count
        // A write that is cut short sets no errno.
        errno = ENOSPC
        // The first newline ends a line that a killed process may have left incomplete.
        guard Self.write([UInt8(ascii: "\n")] + text, to: descriptor) else { return errno }
        return isDurable && fdatasync(descriptor) != 0 ? errno : 0
    }

    private static func write(_ bytes: [UInt8], to descriptor: Int32) -> Bool {
        Glibc.write(descriptor, bytes, bytes.count) == bytes.count
    }

    // MARK: The file

    private mutating func openFile() {
        isOpened = true
        if lock < 0 { lock = open("\(directory)/\(Self.lockName)", O_RDWR | O_CREAT | O_CLOEXEC, 0o600) }
        // Fails while other processes use the file. To change a lock, flock(2) first releases the old one.
        if flock(lock, LOCK_EX | LOCK_NB) == 0 {
            reopen()
            takeOver()
            compact()
        }
        flock(lock, LOCK_SH)
        // Another process may have compacted the file before this lock.
        reopen()
    }

    private mutating func reopen() {
        if descriptor >= 0 { close(descriptor) }
        descriptor = open("\(directory)/\(Self.name)", O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC, 0o600)
        (lines, files, end, appended) = ([:], [:], 0, 0)
    }

    /// Takes over the records of earlier versions, which had a file for each.
    private mutating func takeOver() {
        let old = Self.names(in: directory).filter { $0.hasSuffix(".json") || $0.hasSuffix(".json.new") }
        guard !old.isEmpty else { return }
        var text: [UInt8] = []
        for name in old where name.hasSuffix(".json") {
            guard let bytes = try? TextFile.bytes(of: "\(directory)/\(name)") else { continue }
            let lines = bytes.split(separator: UInt8(ascii: "\n"))
            guard let record = lines.reversed().lazy.compactMap({ GetRecord(Array($0)) }).first else { continue }
            text += (record.text + "\n").utf8
        }
        guard Self.write([UInt8(ascii: "\n")] + text, to: descriptor), fdatasync(descriptor) == 0 else { return }
        for name in old { unlink("\(directory)/\(name)") }
    }

    /// Rewrites a large file in which many lines no longer count. Records of long completed downloads are left out,
    /// too.
    private mutating func compact() {
        var status = stat()
        guard fstat(descriptor, &status) == 0, status.st_size > maxBytes else { return }
        catchUp()
        let counted = Dictionary(
            [lines.values, files.values].joined().map { ($0.bytes.lowerBound, $0) }, uniquingKeysWith: { one, _ in one }
        )
        let counting = counted.values.reduce(0) { $0 + $1.bytes.count }
        guard end - counting > counting / 2 else { return }
        let oldest = UnixTime.milliseconds - Self.maxAge
        var kept: [UInt8] = []
        for line in counted.values.sorted(by: { $0.bytes.lowerBound < $1.bytes.lowerBound }) {
            let bytes = text(line)
            guard line.isOpen || Self.validated(bytes).map({ $0 >= oldest }) == true else { continue }
            kept += bytes + [UInt8(ascii: "\n")]
        }
        let fresh = "\(directory)/\(Self.name).new"
        let file = open(fresh, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0o600)
        guard file >= 0 else { return }
        let isWhole = Self.write(kept, to: file) && fdatasync(file) == 0
        close(file)
        if isWhole { rename(fresh, "\(directory)/\(Self.name)") } else { unlink(fresh) }
    }

    static func names(in directory: String) -> [String] {
        guard let stream = opendir(directory) else { return [] }
        defer { closedir(stream) }
        var names: [String] = []
        while let entry = readdir(stream) {
            let name = withUnsafePointer(to: &entry.pointee.d_name) {
                $0.withMemoryRebound(to: CChar.self, capacity: 256) { String(cString: $0) }
            }
            if name != ".", name != ".." { names.append(name) }
        }
        return names
    }
}
