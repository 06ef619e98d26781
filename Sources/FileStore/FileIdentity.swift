import Glibc

/// Tells whether two descriptors refer to the same file or directory.
struct FileIdentity: Hashable {
    let device: UInt64
    let inode: UInt64

    init?(of descriptor: Int32) {
        var status = stat()
        guard fstat(descriptor, &status) == 0 else { return nil }
        (device, inode) = (UInt64(status.st_dev), UInt64(status.st_ino))
    }
}
