import Glibc
import HaulContract
import HaulHTTP

/// What a finished file has besides its bytes, as the operator wants it.
package struct FileAttributes: Sendable {
    /// Its permissions; nil: 0666 less the umask.
    package var mode: UInt32?
    /// Its time is the server's Last-Modified, where there is one, in place of that of the download.
    package var keepsRemoteTime = false

    package init() {}

    /// The permissions of the partial file: nobody else's go beyond those of the finished one, but who owns it can go on.
    var modeWhileWriting: mode_t { mode.map { $0 | 0o600 } ?? 0o666 }

    /// Gives a whole file what it is to have; false if that is nothing. Blocks.
    func apply(to descriptor: Int32, lastModified: String?) throws(TransferError) -> Bool {
        if let mode, fchmod(descriptor, mode) != 0 { throw TransferError(file: "the file's mode cannot be set", errno) }
        guard keepsRemoteTime, let time = lastModified.flatMap(HTTPDate.parse) else { return mode != nil }
        // A server's clock may be wrong; what is newer than now would puzzle whoever compares.
        let moment = timespec(tv_sec: Int(min(time, UnixTime.seconds)), tv_nsec: 0)
        guard futimens(descriptor, [moment, moment]) == 0 else {
            throw TransferError(file: "the file's time cannot be set", errno)
        }
        return true
    }
}
