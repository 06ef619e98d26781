import HaulTestSupport
import Testing

@testable import HaulContract

@Suite struct JobWritingTests {
    @Test("a job that is written and read again is the same job", arguments: ValidElements.all)
    func roundTrip(_ element: String) throws {
        var job = try Job(element: element.utf8)
        let again = try Job(element: job.element.utf8)
        job.unknownFields = []
        #expect(again == job, "\(job.element)")
        #expect(again.element == job.element)
    }

    @Test("every field of downloads and requests can be written") func everyField() throws {
        var job = Job("https://h/a", id: "x")
        (job.path, job.ifExists, job.freshFor) = ("d/", .fail, .seconds(60))
        job.checksum = Job.Checksum("md5:0123456789abcdef0123456789abcdef")
        (job.size, job.contentType, job.method, job.body) = (1, "text/html", "POST", "b\u{0}\"")
        job.headers = [HeaderField("B", "1"), HeaderField("A", "2")]
        (job.connections, job.limitRate, job.maxBytes, job.minSpeed, job.retries) = (2, 3, 4, 5, 6)
        (job.connectTimeout, job.stallTimeout) = (.milliseconds(1500), .seconds(2))
        (job.delay, job.deadline, job.replyTo) = (.microseconds(1), .seconds(1e10), "r")
        (job.meta, job.at) = ("{\"a\": [1 ]}", 1_700_000_000_000)
        job.batch = Job.Batch("b", size: 7, replyTo: "r")
        job.group = "g"
        job.notify = Job.Notify("http://h/?a", secret: "s", events: [.failed, .batchEnded])
        (job.then, job.else) = (
            [Job.Step(Job("http://h/b"))], [Job.Step(json: #"{"a":1}"#), Job.Step(json: #"{"b":[]}"#)]
        )
        #expect(try Job(element: job.element.utf8) == job)
        let written = Set(try JSON(job.element).members!.map(\.name))
        // `t` is Redis' own ticket, `v` can only be 1, and `urls` replaces `url`.
        func fields(_ kind: Job.Kind) -> Set<String> {
            Set(JobField.all.filter { $0.kinds.contains(kind) }.map(\.name)).subtracting(["t", "v", "urls"])
        }
        // A job without `kind` is a download, so `kind` is not written.
        #expect(written == fields(.download).subtracting(["kind"]))
        job.urls.append("https://g/a")
        #expect(try Job(element: job.element.utf8) == job)
        var request = Job.request("PATCH", "https://h/a", id: "x")
        (request.headers, request.freshFor, request.limitRate, request.retries) = (
            [HeaderField("If-A", "")], .zero, 3, 6
        )
        (request.connectTimeout, request.stallTimeout) = (.milliseconds(1500), .seconds(2))
        (request.delay, request.deadline, request.replyTo) = (.microseconds(1), .seconds(1e10), "r")
        (request.meta, request.at) = ("1", 1_700_000_000_000)
        request.batch = Job.Batch("b")
        request.group = "g"
        request.request.query = [Job.Item("a b", "\u{0}")]
        (request.request.expect, request.request.maxResponse) = ([200...200, 400...499], 7)
        request.request.isIdempotent = true
        (request.request.webhook, request.isSilent) = ("s", true)
        (request.then, request.else) = (job.then, job.else)
        var names: Set<String> = []
        for body in ["body", "json", "form", "body_base64"] {
            var job = request
            switch body {
            case "body": job.body = "é"
            case "json": job.request.json = "[1.0]"
            case "form": job.request.form = [Job.Item("", "x")]
            default: job.request.bodyBase64 = "AA=="
            }
            #expect(try Job(element: job.element.utf8) == job)
            names.formUnion(try JSON(job.element).members!.map(\.name))
        }
        #expect(names == fields(.request))
    }

    @Test("every field of an upload can be written") func everyFieldOfUploads() throws {
        var job = Job.upload("a/b", to: "https://h/", id: "x")
        #expect(try Job(element: job.element.utf8) == job)
        job.method = "PATCH"
        job.upload.contentDigest = .sha512
        job.request.isIdempotent = true
        #expect(try Job(element: job.element.utf8) == job)
        let files = [Job.Upload.File("a", name: "n\"", type: "a/b", filename: "é"), Job.Upload.File("b")]
        job = Job.upload(files, form: [Job.Item("a", "b")], to: "https://h/")
        #expect(try Job(element: job.element.utf8) == job && job.method == "POST")
        job.request.form = []
        (job.upload.isEach, job.method) = (true, "PUT")
        #expect(try Job(element: job.element.utf8) == job)
        job = Job.tus("a", to: "https://h/")
        #expect(try Job(element: job.element.utf8) == job && job.upload.method == .tus)
        // Five fields belong to uploads alone.
        #expect(JobField.all.filter { $0.kinds == [.upload] }.count == 5)
    }
}
