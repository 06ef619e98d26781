import Glibc
import HaulContract
import HaulExecutors
import HaulTerminal

/// The control file `NAME.aria2`, which aria2 keeps beside an unfinished download. It says which bytes of `NAME` are
/// written: `NAME` itself may have its full size from the beginning.
struct Aria2Control: Equatable {
    let total: Int64
    let written: ByteIntervals

    static let suffix = ".aria2"

    /// Removes the control file of a file that is complete: `aria2c -c` would write into it where the map has gaps. A file
    /// of that name that is not a control file stays.
    static func remove(of file: String, in root: String) async {
        let path = "\(root)/\(file)\(suffix)"
        // Most downloads have none, which one call finds out.
        guard access(path, R_OK) == 0 else { return }
        await UnrecordedFile.pool.run {
            var status = stat()
            guard lstat(path, &status) == 0, status.st_mode & S_IFMT == S_IFREG,
                status.st_size <= off_t(TextFile.maxBytes), let bytes = try? TextFile.bytes(of: path),
                Self(bytes) != nil
            else { return }
            unlink(path)
        }
    }

    /// The bytes that one bit stands for, in the bit field of a piece in flight.
    private static let blockLength: Int64 = 16 << 10

    /// nil if the bytes are not a control file. aria2's manual describes the format under "Control file format".
    init?(_ bytes: [UInt8]) {
        guard bytes.starts(with: [0, 1]) || bytes.starts(with: [0, 0]) else { return nil }
        var reader = Reader(bytes: bytes[...], isBigEndian: bytes[1] == 1)
        // Skip the version, the extension and the info hash of a torrent.
        guard reader.skip(2), reader.skip(4), let hashLength = reader.number(4), reader.skip(hashLength),
            let pieceLength = reader.number(4), let total = reader.number(8), reader.skip(8),
            let mapLength = reader.number(4), let map = reader.take(mapLength), let underWay = reader.number(4)
        else { return nil }
        guard pieceLength > 0, total >= 0, underWay <= bytes.count else { return nil }
        var written = ByteIntervals()
        /// Inserts `length` bytes for each bit that is set. The highest bit of a byte comes first.
        func insert(_ bits: ArraySlice<UInt8>, each length: Int64, in range: Range<Int64>) {
            for (index, byte) in bits.enumerated() where byte != 0 {
                for bit in 0..<8 where byte & (0x80 >> bit) != 0 {
                    let (start, isTooFar) = Int64(index * 8 + bit).multipliedReportingOverflow(by: length)
                    guard !isTooFar, start < range.upperBound - range.lowerBound else { return }
                    let first = range.lowerBound + start
                    written.insert(first..<first + min(range.upperBound - first, length))
                }
            }
        }
        insert(map, each: pieceLength, in: 0..<total)
        for _ in 0..<underWay {
            guard let index = reader.number(4), let length = reader.number(4), let mapLength = reader.number(4),
                let map = reader.take(mapLength)
            else { return nil }
            let (start, isTooFar) = index.multipliedReportingOverflow(by: pieceLength)
            guard !isTooFar, start < total, length > 0 else { return nil }
            insert(map, each: Self.blockLength, in: start..<start + min(total - start, length))
        }
        (self.total, self.written) = (total, written)
    }

    /// nil if there is no file at `path`. A file that cannot be read counts as one without any written bytes. Blocks.
    init?(readable path: String) {
        guard access(path, F_OK) == 0 else { return nil }
        self = (try? TextFile.bytes(of: path)).flatMap(Self.init) ?? Self(total: 0, written: ByteIntervals())
    }

    private init(total: Int64, written: ByteIntervals) { (self.total, self.written) = (total, written) }

    /// Reads bytes and numbers from the front.
    private struct Reader {
        var bytes: ArraySlice<UInt8>
        let isBigEndian: Bool

        mutating func take(_ count: Int64) -> ArraySlice<UInt8>? {
            guard count >= 0, count <= bytes.count else { return nil }
            defer { bytes = bytes.dropFirst(Int(count)) }
            return bytes.prefix(Int(count))
        }

        mutating func skip(_ count: Int64) -> Bool { take(count) != nil }

        /// nil at the end of the bytes, and if an `Int64` cannot hold the number.
        mutating func number(_ count: Int64) -> Int64? {
            guard let digits = take(count) else { return nil }
            let value = (isBigEndian ? Array(digits) : digits.reversed()).reduce(UInt64(0)) { $0 << 8 | UInt64($1) }
            return Int64(exactly: value)
        }
    }
}
