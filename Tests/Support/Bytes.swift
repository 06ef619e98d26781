import Glibc

/// Bytes that depend on their offset alone: a range always has the same bytes.
package func testBytes(_ count: Int, from offset: Int = 0) -> [UInt8] {
    var bytes: [UInt8] = []
    bytes.reserveCapacity(count)
    while bytes.count < count {
        let start = (offset + bytes.count) % period.count
        bytes += period[start..<min(start + count - bytes.count, period.count)]
    }
    return bytes
}

/// The bytes begin again after 2^21 of them. They are computed once, because a debug build takes a second for 16 MiB.
private let period = (0..<1 << 21).map { UInt8(truncatingIfNeeded: ($0 &* 2_654_435_761) >> 13) }

/// Compares as memcmp does. In a debug build the operator of the standard library calls three functions for each byte.
package func == (left: [UInt8], right: [UInt8]) -> Bool {
    left.count == right.count && (left.isEmpty || memcmp(left, right, left.count) == 0)
}

package func != (left: [UInt8], right: [UInt8]) -> Bool { !(left == right) }

/// An open file without a name. It is in /var/tmp, which is on a disk, while /tmp may be a tmpfs.
package func temporaryDescriptor() -> Int32 {
    var template = Array("/var/tmp/haul-test-XXXXXX\0".utf8CString)
    let descriptor = mkstemp(&template)
    precondition(descriptor >= 0)
    unlink(template)
    return descriptor
}

/// The whole content of a file.
package func contents(_ descriptor: Int32) -> [UInt8] {
    var bytes = [UInt8](repeating: 0, count: Int(lseek(descriptor, 0, Int32(SEEK_END))))
    _ = pread(descriptor, &bytes, bytes.count, 0)
    return bytes
}
