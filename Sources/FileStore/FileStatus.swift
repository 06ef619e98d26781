import Glibc
import HaulContract
import HaulStorage

extension stat {
    /// When the inode changed. The time of modification is not enough, because a finished file may have the server's.
    var version: Leftover.Version { Leftover.Version(Int64(st_ctim.tv_sec), Int64(st_ctim.tv_nsec)) }

    var isDirectory: Bool { st_mode & S_IFMT == S_IFDIR }

    /// Whether both are of one file that was not written to in between. A file system without links may renumber its
    /// files (`hasLastingInodes` is false). Then size and time decide, which two files may have in common by chance.
    func isSameFile(as other: stat, hasLastingInodes: Bool) -> Bool {
        st_mode & S_IFMT == S_IFREG && st_dev == other.st_dev && st_size == other.st_size
            && (st_ino == other.st_ino || !hasLastingInodes && fingerprint == other.fingerprint)
    }

    /// Only compared with itself, so a time before 1677 or after 2262 may wrap around.
    var modifiedNanoseconds: Int64 { Int64(st_mtim.tv_sec) &* 1_000_000_000 &+ Int64(st_mtim.tv_nsec) }
    var changedNanoseconds: Int64 { Int64(st_ctim.tv_sec) &* 1_000_000_000 &+ Int64(st_ctim.tv_nsec) }

    /// The identity to record for a finished file that has just got its name: its inode. A file system without links
    /// has given it no second link, and may have no lasting inodes. There the identity is made of size and time.
    var lastingIdentity: UInt64 { st_nlink > 1 ? UInt64(st_ino) : fingerprint }

    /// Whether this is the file for which `identity` was recorded.
    func hasIdentity(_ identity: UInt64) -> Bool { identity == UInt64(st_ino) || identity == fingerprint }

    func matches(_ identity: FinishedIdentity) -> Bool {
        hasIdentity(identity.inode) && identity.bytes.map { $0 == Int64(st_size) } ?? true
            && identity.modified.map { $0 == modifiedNanoseconds } ?? true
    }

    /// FNV-1a of size and time. The highest bit is set: no file system numbers its inodes so high.
    private var fingerprint: UInt64 {
        var hash: UInt64 = 0xcbf2_9ce4_8422_2325
        for number in [UInt64(bitPattern: Int64(st_size)), UInt64(bitPattern: modifiedNanoseconds)] {
            for shift in stride(from: UInt64(0), to: 64, by: 8) {
                hash = (hash ^ (number >> shift & 0xff)) &* 0x100_0000_01b3
            }
        }
        return hash | 1 << 63
    }
}
