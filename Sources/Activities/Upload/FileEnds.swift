import HaulContract
import HaulHTTP

/// What came of each file of an upload that sends them one by one: a value, which the next run goes on from.
struct FileEnds: Sendable {
    private enum End: Sendable {
        case done(status: Int)
        case failed(Failure)
    }

    private let files: [String]
    private var ends: [Int: End] = [:]

    /// - Parameter resume: What an earlier run has told, if it was of the same files and the same URL.
    init(_ plan: UploadPlan, _ resume: ResumePoint?) {
        files = plan.files.map(\.file)
        guard let resume, resume.source == MaskedURL.text(plan.url) else { return }
        let words = resume.journal.split(separator: " ")
        guard words.first == "each", words.dropFirst().first.map(String.init) == Self.name(of: files) else { return }
        for word in words.dropFirst(2) {
            let parts = word.split(separator: "=").map { Int($0) }
            if parts.count == 2, let index = parts[0], let status = parts[1], files.indices.contains(index) {
                ends[index] = .done(status: status)
            }
        }
    }

    /// Tells other files apart.
    private static func name(of files: [String]) -> String {
        String(Job.Checksum.Algorithm.sha256.hexadecimal(of: files.joined(separator: "\n")).prefix(16))
    }

    /// As a resume point keeps it: what needs not be sent again.
    var journal: String {
        (["each", Self.name(of: files)]
            + files.indices.compactMap { index in
                if case .done(let status) = ends[index] { "\(index)=\(status)" } else { nil }
            }).joined(separator: " ")
    }

    func isDone(_ index: Int) -> Bool { if case .done = ends[index] { true } else { false } }

    mutating func note(_ index: Int, status: Int) { ends[index] = .done(status: status) }
    mutating func note(_ index: Int, _ failure: Failure) { ends[index] = .failed(failure) }

    /// The files that were not sent.
    var missing: [String] { files.indices.filter { !isDone($0) }.map { files[$0] } }

    var lastStatus: Int? {
        files.indices.reversed().lazy.compactMap { index in
            if case .done(let status) = ends[index] { status } else { nil }
        }.first
    }

    /// As an event tells it: a list of objects, in the order of the files.
    var text: String {
        let objects = files.indices.map { index in
            var object = JSONObject()
            object.set("file", files[index])
            switch ends[index] {
            case .done(let status): object.set("status", status)
            case .failed(let failure):
                object.set("status", failure.code.httpStatus)
                object.set("error", failure.code.rawValue)
            case nil: break
            }
            return object.text
        }
        return "[" + objects.joined(separator: ",") + "]"
    }
}
