import Glibc
import HaulContract
import HaulHTTP

/// The attributes that the operator chose for finished files, apart from their bytes.
package struct FileAttributes: Sendable {
    /// The permissions; nil: 0666 less the umask.
    package var mode: UInt32?
    /// The file's time is the server's Last-Modified, if there is one, instead of the time of the download.
    package var keepsRemoteTime = false

    package init() {}

    /// The permissions of the partial file: those of the finished file, but the owner may always read and write.
    var modeWhileWriting: mode_t { mode.map { $0 | 0o600 } ?? 0o666 }

    /// Sets the attributes of a complete file; false if there are none to set. Blocks.
    func apply(to descriptor: Int32, lastModified: String?) throws(TransferError) -> Bool {
        if let mode, fchmod(descriptor, mode) != 0 { throw TransferError(file: "the file's mode cannot be set", errno) }
        guard keepsRemoteTime, let time = lastModified.flatMap(HTTPDate.parse) else { return mode != nil }
        // A server's clock may be wrong. A time in the future confuses programs that compare times, and not every file
        // system has times before 1970.
        let timestamp = timespec(tv_sec: Int(max(0, min(time, UnixTime.seconds))), tv_nsec: 0)
        guard futimens(descriptor, [timestamp, timestamp]) == 0 else {
            throw TransferError(file: "the file's time cannot be set", errno)
        }
        return true
    }
}
