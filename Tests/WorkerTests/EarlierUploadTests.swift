import HaulBus
import HaulContract
import HaulHTTP
import HaulTestSupport
import Testing

@testable import HaulActivities
@testable import HaulWorker

/// What an earlier run has sent counts only for the same request.
@Suite(.timeLimit(.minutes(2))) struct EarlierUploadTests {
    /// What the second push of the id, or the file, has changed.
    enum Change: String, CaseIterable { case nothing, signature, query, method, file }

    @Test(
        "a file counts as sent only to the same URL, by the same method and in the same version",
        arguments: Change.allCases)
    func each(_ change: Change) async throws {
        let isBroken = Shared(true)
        let origin = try OriginServer { OriginReply(isBroken.value && $0.path.contains("/b") ? 400 : 201) }
        let fleet = try await Fleet()
        for name in ["a", "b"] { try fleet.place(name, Array(name.utf8)) }
        try await fleet.withWorker("w") {
            let files = #""files":[{"file":"a"},{"file":"b"}],"each":true"#
            let first = try await fleet.upload("u", origin.url("/"), #""query":{"dir":1},\#(files)"#)
            #expect(first.state == .failed && first["error"] == "http_400", "\(first.fields)")
            isBroken.value = false
            var more = #""query":{"dir":1}"#
            switch change {
            case .nothing: break
            case .signature: more = #""query":{"dir":1,"Expires":7,"Signature":"x"}"#
            case .query: more = #""query":{"dir":2}"#
            case .method: more += #","method":"POST""#
            case .file: try fleet.place("a", Array("new".utf8))
            }
            let before = origin.requests.count
            try await fleet.push(#"{"kind":"upload","id":"u","url":"\#(origin.url("/"))",\#(more),\#(files)}"#)
            try await fleet.wait("u", for: .completed)
            let sent = origin.requests.dropFirst(before)
            let isSame = change == .nothing || change == .signature
            #expect(sent.map { String(($0.path + "?").prefix { $0 != "?" }) } == (isSame ? ["/b"] : ["/a", "/b"]))
            if change == .file { #expect(sent.first?.body.text == "new") }
        }
    }

    @Test(
        "results of version 0.2, which name the paths alone, keep only what must not be sent twice",
        arguments: ["PUT", "POST"])
    func older(_ method: String) throws {
        let text =
            #"{"kind":"upload","url":"http://h/?d=1","method":"\#(method)","files":[{"file":"a"},{"file":"b"}],"each":true}"#
        let plan = UploadPlan(try Job(json: JSON(text)))
        var results = FileResults(plan, nil)
        results.begin(plan, versions: ["1", "1"])
        results.record(0, status: 201)
        let words = results.storeState.split(separator: " ")
        #expect(words.count == 4)
        var point = ResumePoint(
            generation: "g", store: "s", file: "", entity: Entity(), source: MaskedURL.text(plan.url),
            storeState: words.prefix(3).joined(separator: " "))
        var next = FileResults(plan, point)
        #expect(next.storeState == point.storeState, "a run that ends before it opens the files loses nothing")
        next.begin(plan, versions: ["1", "1"])
        #expect(next.isDone(0) == (method == "POST") && !next.isDone(1))
        point.storeState = results.storeState
        for (version, isDone) in [("1", true), ("2", false)] {
            var next = FileResults(plan, point)
            next.begin(plan, versions: [version, "1"])
            #expect(next.isDone(0) == isDone)
        }
    }

    @Test("a tus upload that was created for another query is not continued", arguments: [1, 2])
    func tus(_ directory: Int) async throws {
        let server = TusScript()
        let isBroken = Shared(true)
        let origin = try OriginServer { request in
            isBroken.value && request.method == "PATCH" ? OriginReply(400) : server.answer(request)
        }
        let fleet = try await Fleet()
        try fleet.place("f", Array("film".utf8))
        try await fleet.withWorker("w") {
            let rest = #""file":"f","protocol":"tus""#
            let first = try await fleet.upload("t", origin.url("/files?dir=1"), rest)
            #expect(first.state == .failed && first["error"] == "http_400", "\(first.fields)")
            isBroken.value = false
            try await fleet.push(
                #"{"kind":"upload","id":"t","url":"\#(origin.url("/files?dir=\(directory)"))",\#(rest)}"#)
            try await fleet.wait("t", for: .completed)
        }
        #expect(server.uploads == directory && server.finished.count == 1)
    }

    @Test(
        "an upload of version 0.2 is continued if its URL has no query, and restarted otherwise",
        arguments: ["", "?dir=1"])
    func olderTus(_ query: String) throws {
        let plan = UploadPlan(
            try Job(json: JSON(#"{"kind":"upload","url":"http://h/\#(query)","file":"f","protocol":"tus"}"#)))
        let upload = TusUpload(url: "http://h/1", version: "v", generation: "g", server: TusServer())
        var point = ResumePoint(
            generation: "g", store: "s", file: "", entity: Entity(), source: MaskedURL.text(plan.url),
            storeState: upload.storeState(of: plan))
        #expect(TusUpload(point, of: plan) != nil)
        point.storeState = point.storeState.replacing(#/"resource":"[0-9a-f]*",/#, with: "")
        #expect((TusUpload(point, of: plan) != nil) == query.isEmpty)
    }

    @Test("with `each`, only the same version of the same file has the same Idempotency-Key") func keys() throws {
        let text = #""kind":"upload","id":"u","url":"http://h/","method":"POST","files":[{"file":"a"},{"file":"b"}]"#
        let plan = UploadPlan(try Job(json: JSON("{\(text),\"idempotent\":true,\"each\":true}")))
        func key(_ file: Int, _ version: String) -> String? {
            plan.headers(of: plan.files[file], version: version).first { $0.name == "Idempotency-Key" }?.value
        }
        let keys = [key(0, "1"), key(0, "1"), key(0, "2"), key(1, "1")].compactMap(\.self)
        #expect(keys.count == 4 && keys.allSatisfy { $0.hasPrefix("u-") })
        #expect(keys[0] == keys[1] && Set(keys).count == 3 && plan.isRepeatable)
        #expect(!UploadPlan(try Job(json: JSON("{\(text),\"each\":true}"))).isRepeatable)
        let form = UploadPlan(try Job(json: JSON("{\(text),\"idempotent\":true}")))
        #expect(form.headers == [HeaderField("Idempotency-Key", "u")] && form.isRepeatable)
    }

    @Test(
        "a POST without a response is `outcome_unknown`, although an earlier file of the job got one",
        arguments: [201, 500])
    func unanswered(_ status: Int) async throws {
        let intake: @Sendable (OriginRequest) -> OriginIntake = { request in
            var intake = OriginIntake()
            if request.path == "/b" { (intake.cut, intake.isReset) = (1, true) }
            return intake
        }
        let origin = try OriginServer(intake: intake) { _ in OriginReply(status) }
        let fleet = try await Fleet()
        for name in ["a", "b", "c"] { try fleet.place(name, Array("film \(name)".utf8)) }
        try await fleet.withWorker("w") {
            let files = #""files":[{"file":"a"},{"file":"b"},{"file":"c"}],"each":true,"method":"POST""#
            let record = try await fleet.upload("u", origin.url("/"), files)
            #expect(record.state == .failed && record["error"] == "outcome_unknown", "\(record.fields)")
            let count = status == 201 ? 2 : 3
            #expect(record["message"]?.contains("\(count) of 3 files got no response") == true, "\(record.fields)")
            #expect(record["retryable"] == "0" && record["files"]?.contains(#"{"file":"c"}"#) == true)
            #expect(origin.requests.map(\.path) == ["/a", "/b"])
        }
    }
}
