import HaulContract
import HaulHTTP

/// The result of each file of an upload that sends its files one by one. The next run continues from these results.
struct FileResults: Sendable {
    private enum Outcome: Sendable {
        case done(status: Int)
        case failed(Failure)
    }

    private let files: [String]
    private var outcomes: [Int: Outcome] = [:]

    /// - Parameter resume: The resume point of an earlier run. It is ignored if its files or its URL are others.
    init(_ plan: UploadPlan, _ resume: ResumePoint?) {
        files = plan.files.map(\.file)
        guard let resume, resume.source == MaskedURL.text(plan.url) else { return }
        let words = resume.storeState.split(separator: " ")
        guard words.first == "each", words.dropFirst().first.map(String.init) == Self.name(of: files) else { return }
        for word in words.dropFirst(2) {
            let parts = word.split(separator: "=").map { Int($0) }
            if parts.count == 2, let index = parts[0], let status = parts[1], files.indices.contains(index) {
                outcomes[index] = .done(status: status)
            }
        }
    }

    /// A digest of the paths, because results of other files do not count.
    private static func name(of files: [String]) -> String {
        String(Job.Checksum.Algorithm.sha256.hexadecimal(of: files.joined(separator: "\n")).prefix(16))
    }

    /// For the resume point: the files that need not be sent again.
    var storeState: String {
        (["each", Self.name(of: files)]
            + files.indices.compactMap { index in
                if case .done(let status) = outcomes[index] { "\(index)=\(status)" } else { nil }
            }).joined(separator: " ")
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
