import Glibc
import HaulTerminal

/// A temporary directory in `TMPDIR`.
struct ScratchDirectory {
    /// Absolute, without symbolic links.
    let path: String
    /// The records of downloads to it. No later command continues them.
    let downloadLog: DownloadLog

    /// - Throws: `ExitStatus.usage` if it cannot be made; the reason has been printed.
    init() throws {
        var template = Array(((Environment.text("TMPDIR") ?? "/tmp") + "/haul-get-XXXXXX").utf8CString)
        guard mkdtemp(&template) != nil else {
            throw ExitStatus.printing(
                .usage, "no directory for temporary files (\(String(cString: strerror(errno)))): set TMPDIR")
        }
        let created = String(decoding: template.dropLast().map { UInt8(bitPattern: $0) }, as: UTF8.self)
        path = try GetTarget.absolute(created)
        downloadLog = try DownloadLog(in: created + "/state")
    }

    /// Removes the directory and its files, those of unfinished downloads included: no later command continues them.
    func remove() {
        downloadLog.removeAll()
        for name in DownloadLogFile.names(in: path) { unlink("\(path)/\(name)") }
        rmdir(path)
    }
}
