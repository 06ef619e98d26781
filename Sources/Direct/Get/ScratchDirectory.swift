import Glibc
import HaulTerminal

/// A directory of its own, beneath `TMPDIR`, for files that are not to stay.
struct ScratchDirectory {
    /// Without links.
    let path: String
    /// Records of downloads to it, which nobody will continue.
    let journal: Journal
    private let names: [String]

    /// `names` are those that its files will have. Throws `.usage` with a sentence.
    init(names: [String]) throws {
        var template = Array(((Environment.text("TMPDIR") ?? "/tmp") + "/haul-get-XXXXXX").utf8CString)
        guard mkdtemp(&template) != nil else {
            throw ExitStatus.because(
                .usage, "no directory for temporary files (\(String(cString: strerror(errno)))): set TMPDIR")
        }
        let place = String(decoding: template.dropLast().map { UInt8(bitPattern: $0) }, as: UTF8.self)
        path = try GetPlace.absolute(place)
        journal = try Journal(in: place + "/state")
        self.names = names
    }

    /// With what is in it.
    func remove() {
        journal.removeAll()
        for name in names { unlink("\(path)/\(name)") }
        rmdir(path)
    }
}
