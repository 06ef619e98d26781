extension Job {
    /// What a job of the kind ``Kind/upload`` sends. What the server's answer must be is in ``Job/request``.
    public struct Upload: Sendable, Equatable {
        /// One of several files.
        public struct File: Sendable, Equatable {
            /// Relative to the workers' root.
            public var file: String
            /// The name of its field in a form; nil: `file`.
            public var name: String?
            /// Its media type; nil: `application/octet-stream`.
            public var type: String?
            /// What the server is told that it is called; nil: the last part of ``file``.
            public var filename: String?

            /// A file by its path in the workers' root.
            public init(_ file: String, name: String? = nil, type: String? = nil, filename: String? = nil) {
                (self.file, self.name, self.type, self.filename) = (file, name, type, filename)
            }
        }

        /// How bytes are sent that are more than a body.
        public enum Method: String, Sendable, CaseIterable {
            /// https://tus.io/protocols/resumable-upload, version 1.0: the server keeps what it has.
            case tus
        }

        /// The digest of the body that the server is told (RFC 9530).
        public enum Digest: String, Sendable, CaseIterable {
            case sha256 = "sha-256"
            case sha512 = "sha-512"
        }

        /// One file, which is the body. Relative to the workers' root.
        public var file: String?
        /// Several files: the fields of one form, or with ``isEach`` a request for each.
        public var files: [File] = []
        /// Each of ``files`` is the body of a request of its own.
        public var isEach = false
        /// nil: the body of one request.
        public var method: Method?
        /// Told with each body in Content-Digest.
        public var contentDigest: Digest?

        /// Sends nothing yet.
        public init() {}

        package static let mostFiles = 64

        /// What is not said of the request's method: a form is posted, a file is put.
        package var usualMethod: String { files.isEmpty || isEach ? "PUT" : "POST" }
    }

    /// A job that sends one file of the workers' root to a URL. To a URL that ends with "/" the file's name is added.
    public static func upload(_ file: String, to url: String, id: String? = nil) -> Job {
        var job = Job(url, id: id)
        (job.kind, job.method) = (.upload, "PUT")
        job.upload.file = file
        return job
    }

    /// A job that sends files of the workers' root in one form.
    public static func upload(
        _ files: [Upload.File], form: [Item] = [], to url: String, id: String? = nil
    ) -> Job {
        var job = Job(url, id: id)
        (job.kind, job.method) = (.upload, "POST")
        (job.upload.files, job.request.form) = (files, form)
        return job
    }

    /// A job that sends each of these files of the workers' root by a request of its own. To a URL that ends with "/" a file's name is added.
    public static func upload(each files: [Upload.File], to url: String, id: String? = nil) -> Job {
        var job = Job(url, id: id)
        (job.kind, job.method) = (.upload, "PUT")
        (job.upload.files, job.upload.isEach) = (files, true)
        return job
    }

    /// A job that sends one file by tus: whoever continues it sends only what the server does not have.
    public static func tus(_ file: String, to url: String, id: String? = nil) -> Job {
        var job = upload(file, to: url, id: id)
        job.upload.method = .tus
        return job
    }
}

extension Job.Upload {
    /// Fields that do not go together, as both readers say it: the field, and why. nil if all is well.
    static func contradiction(in json: JSON) -> (field: String, reason: String)? {
        func has(_ names: String...) -> Bool { names.contains { json[$0] != nil } }
        if has("file") == has("files") { return ("file", fileRule) }
        if has("each"), !has("files") { return ("each", eachRule) }
        if has("form"), !has("files") || json["each"]?.bool == true { return ("form", formRule) }
        if has("protocol"), has("files", "method", "expect", "idempotent", "content_digest") {
            return ("protocol", protocolRule)
        }
        return nil
    }

    package static let fileRule = "is required, or files in its place"
    package static let eachRule = "goes with files"
    package static let formRule = "goes with files that are sent in one body"
    package static let protocolRule = "goes with file, and without method, expect, idempotent and content_digest"

    /// A list of files, as `files` has it; nil if it is none.
    static func files(_ value: JSON) -> [File]? {
        guard let list = value.array, 1...mostFiles ~= list.count else { return nil }
        var files: [File] = []
        for element in list {
            guard let members = element.members, let path = element["file"]?.string, JobField.isFile(path) else {
                return nil
            }
            var file = File(path)
            for member in members {
                guard let text = member.value.string else { return nil }
                switch member.name {
                case "file": break
                case "name" where isName(text): file.name = text
                case "filename" where isName(text): file.filename = text
                case "type" where MediaType.isValid(text): file.type = text
                default: return nil
                }
            }
            files.append(file)
        }
        return files
    }

    private static func isName(_ text: String) -> Bool {
        1...255 ~= text.utf8.count && !text.utf8.contains { $0 < 32 || $0 == 127 }
    }

    /// The member of an element.
    static func text(_ files: [File]) -> String {
        let objects = files.map { file in
            var object = JSONObject()
            object.set("file", file.file)
            object.set("name", file.name)
            object.set("type", file.type)
            object.set("filename", file.filename)
            return object.text
        }
        return "[" + objects.joined(separator: ",") + "]"
    }
}
