extension Job {
    /// The fields of an upload. What the response must be is in ``Job/request``.
    public struct Upload: Sendable, Equatable {
        /// One of several files.
        public struct File: Sendable, Equatable {
            /// The path, relative to the workers' `--upload-from`.
            public var file: String
            /// The name of the file's field in a form. nil means `file`.
            public var name: String?
            /// The media type. nil means `application/octet-stream`.
            public var type: String?
            /// The file name that is sent to the server. nil means the last part of ``file``.
            public var filename: String?

            /// The file with this path beneath the workers' `--upload-from`.
            public init(_ file: String, name: String? = nil, type: String? = nil, filename: String? = nil) {
                (self.file, self.name, self.type, self.filename) = (file, name, type, filename)
            }
        }

        /// A protocol for uploads in more than one request.
        public enum Method: String, Sendable, CaseIterable {
            /// tus 1.0, https://tus.io/protocols/resumable-upload: the server keeps the bytes of an interrupted upload.
            case tus
        }

        /// The algorithm of Content-Digest (RFC 9530).
        public enum Digest: String, Sendable, CaseIterable {
            case sha256 = "sha-256"
            case sha512 = "sha-512"
        }

        /// The path of one file, relative to the workers' `--upload-from`. The file is the body of the request.
        public var file: String?
        /// The name of ``file`` that is sent to the server, if a command sends the file. nil means its last part. No element
        /// has it: there ``files`` have names.
        package var filename: String?
        /// Several files: the fields of one form, or with ``isEach`` the bodies of several requests.
        public var files: [File] = []
        /// Whether each of ``files`` is the body of a request of its own.
        public var isEach = false
        /// The protocol of a resumable upload. nil sends the file as the body of one request.
        public var method: Method?
        /// Sends a Content-Digest with each body. nil sends none.
        public var contentDigest: Digest?

        /// An upload without files.
        public init() {}

        package static let maxFiles = 64

        /// The method of an upload that names none: POST for a form, PUT for a file.
        package var defaultMethod: String { files.isEmpty || isEach ? "PUT" : "POST" }
    }

    /// A job that sends one file of the workers. If the URL's path ends with "/", the file's name is appended.
    public static func upload(_ file: String, to url: String, id: String? = nil) -> Job {
        var job = Job(url, id: id)
        (job.kind, job.method) = (.upload, "PUT")
        job.upload.file = file
        return job
    }

    /// A job that sends files of the workers in one form.
    public static func upload(
        _ files: [Upload.File], form: [Item] = [], to url: String, id: String? = nil
    ) -> Job {
        var job = Job(url, id: id)
        (job.kind, job.method) = (.upload, "POST")
        (job.upload.files, job.request.form) = (files, form)
        return job
    }

    /// A job that sends each of these files of the workers in a request of its own. If the URL's path ends with
    /// "/", the file's name is appended.
    public static func upload(each files: [Upload.File], to url: String, id: String? = nil) -> Job {
        var job = Job(url, id: id)
        (job.kind, job.method) = (.upload, "PUT")
        (job.upload.files, job.upload.isEach) = (files, true)
        return job
    }

    /// A job that sends one file by tus. A worker that continues the upload sends only the bytes that the server lacks.
    public static func tus(_ file: String, to url: String, id: String? = nil) -> Job {
        var job = upload(file, to: url, id: id)
        job.upload.method = .tus
        return job
    }
}

extension Job.Upload {
    /// Returns the first field that cannot be combined with the job's other fields, and the reason. nil if there is
    /// none. Bus/Lua/claim/gate.lua checks the same.
    static func contradiction(in json: JSON) -> (field: String, reason: String)? {
        func has(_ name: String) -> Bool { json[name] != nil }
        if has("file") == has("files") { return ("file", fileRule) }
        if has("each"), !has("files") { return ("each", eachRule) }
        if has("form"), !has("files") || json["each"]?.bool == true { return ("form", formRule) }
        if has("protocol"), excludedByProtocol.contains(where: has) { return ("protocol", protocolRule) }
        return nil
    }

    /// The fields that an upload with `protocol` may not have.
    static let excludedByProtocol = ["files", "method", "expect", "idempotent", "content_digest"]

    package static let fileRule = "is required, unless files is given"
    package static let eachRule = "requires files"
    package static let formRule = "requires files that are sent in one body"
    package static let protocolRule = "requires file, and excludes method, expect, idempotent and content_digest"

    /// Reads the value of a job's field `files`. nil if the value is not valid.
    static func files(_ value: JSON) -> [File]? {
        guard let list = value.array, 1...maxFiles ~= list.count else { return nil }
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

    /// The value of a job's field `files`, as JSON.
    static func json(_ files: [File]) -> String {
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
