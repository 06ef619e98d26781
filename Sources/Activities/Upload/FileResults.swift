import HaulContract
import HaulHTTP

/// The result of each file of an upload that sends its files one by one. The next run continues from these results.
///
/// A result counts for the same version of the file, sent to the same URL with the same method. A file that has
/// changed, or that goes elsewhere by now, is sent again.
struct FileResults: Sendable {
    private enum Outcome: Sendable {
        case done(status: Int)
        case failed(Failure)
    }

    private let files: [String]
    /// What each file's request is, once the files are open.
    private var marks: [String] = []
    private var outcomes: [Int: Outcome] = [:]
    /// The store state of an earlier run, until the files are open.
    private var earlier = ""
    /// Whether sending a file twice does no harm.
    private let isRepeatable: Bool

    /// - Parameter resume: The resume point of an earlier run. It is ignored if its URL or its files are others.
    init(_ plan: UploadPlan, _ resume: ResumePoint?) {
        (files, isRepeatable) = (plan.files.map(\.file), plan.isRepeatable)
        guard let resume, resume.source == MaskedURL.text(plan.url) else { return }
        let words = resume.storeState.split(separator: " ")
        guard words.first == "each", words.dropFirst().first.map(String.init) == Self.name(of: files) else { return }
        earlier = resume.storeState
    }

    /// Takes over the earlier results that are of these requests.
    ///
    /// - Parameter versions: `SourceVersion.text` of each file.
    mutating func begin(_ plan: UploadPlan, versions: [String]) {
        marks = zip(plan.files, versions).map { plan.mark(of: $0, version: $1) }
        var statuses: [Int: Int] = [:]
        var known: [Int: Substring] = [:]
        for word in earlier.split(separator: " ").dropFirst(2) {
            let (status, mark) = (word.split(separator: "="), word.split(separator: ":"))
            if status.count == 2, let index = Int(status[0]), let value = Int(status[1]) { statuses[index] = value }
            if mark.count == 2, let index = Int(mark[0]) { known[index] = mark[1] }
        }
        for (index, status) in statuses where files.indices.contains(index) {
            // Version 0.2 records no mark. Then a file is sent again unless that could do harm.
            let isSame = known[index].map { $0 == marks[index] } ?? !isRepeatable
            if isSame { outcomes[index] = .done(status: status) }
        }
        earlier = ""
    }

    /// A digest of the paths, because results of other files do not count.
    private static func name(of files: [String]) -> String {
        String(Job.Checksum.Algorithm.sha256.hexadecimal(of: files.joined(separator: "\n")).prefix(16))
    }

    /// For the resume point: the files that need not be sent again.
    var storeState: String {
        guard earlier.isEmpty else { return earlier }
        let done = files.indices.compactMap { index in
            if case .done(let status) = outcomes[index] { "\(index)=\(status) \(index):\(marks[index])" } else { nil }
        }
        return (["each", Self.name(of: files)] + done).joined(separator: " ")
    }

    func isDone(_ index: Int) -> Bool { if case .done = outcomes[index] { true } else { false } }

    mutating func record(_ index: Int, status: Int) { outcomes[index] = .done(status: status) }
    mutating func record(_ index: Int, _ failure: Failure) { outcomes[index] = .failed(failure) }

    /// The files that are not sent yet.
    var missing: [String] { files.indices.filter { !isDone($0) }.map { files[$0] } }

    var lastStatus: Int? {
        files.indices.reversed().lazy.compactMap { index in
            if case .done(let status) = outcomes[index] { status } else { nil }
        }.first
    }

    /// For events: a JSON array with an object for each file, in the order of the files.
    var text: String {
        let objects = files.indices.map { index in
            var object = JSONObject()
            object.set("file", files[index])
            switch outcomes[index] {
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
