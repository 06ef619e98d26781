import Glibc
import HaulContract
import HaulStorage

extension stat {
    /// When the inode changed: when the file was modified says nothing, since a finished one may have the server's time.
    var version: Leftover.Version { Leftover.Version(Int64(st_ctim.tv_sec), Int64(st_ctim.tv_nsec)) }

    var isDirectory: Bool { st_mode & S_IFMT == S_IFDIR }

    /// Whether both are of one file, which has not been written to between them. A file system without links may number a file
    /// anew (`hasLastingInodes` is false). There size and time tell, which two files of one moment may have in common.
    func isOfSameFile(as other: stat, hasLastingInodes: Bool) -> Bool {
        st_mode & S_IFMT == S_IFREG && st_dev == other.st_dev && st_size == other.st_size
            && (st_ino == other.st_ino || !hasLastingInodes && fingerprint == other.fingerprint)
    }

    var modifiedNanoseconds: Int64 { Int64(st_mtim.tv_sec) * 1_000_000_000 + Int64(st_mtim.tv_nsec) }

    /// What is noted of a finished file that has just got its name, in the place of an inode. A file system that knows no
    /// links, and so has given it no second one, may have no lasting inodes either: there it is made of size and time.
    var lastingIdentity: UInt64 { st_nlink > 1 ? UInt64(st_ino) : fingerprint }

    /// Whether it is the file that `identity` was noted of.
    func hasIdentity(_ identity: UInt64) -> Bool { identity == UInt64(st_ino) || identity == fingerprint }

    func matches(_ identity: FinishedIdentity) -> Bool {
        hasIdentity(identity.inode) && identity.bytes.map { $0 == Int64(st_size) } ?? true
            && identity.modified.map { $0 == modifiedNanoseconds } ?? true
    }

    /// FNV-1a of size and time. Its first bit is set: no file system counts so far.
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
