import Testing

@testable import HaulContract

@Suite("Next steps: the elements of then and else") struct StepTests {
    private static let values = [
        "id": "film-17", "file": #"a "quoted"\name"#, "bytes": "12", "checksum": "", "error": "http_404",
    ]

    private func element(_ text: String, _ values: [String: String] = values) -> String {
        Job.Step(json: text).element(values, id: "derived").text
    }

    @Test("values are filled into all texts, as JSON writes them") func filled() {
        #expect(
            element(#"{"id":"s-${id}","kind":"request","url":"http://h/?f=${bytes}","json":{"f":["${file}",1.50]}}"#)
                == #"{"id":"s-film-17","kind":"request","url":"http://h/?f=12","json":{"f":["a \"quoted\"\\name",1.50]}}"#
        )
    }

    @Test("an absent value is the empty text, and a word that names no value stays as it is") func absent() {
        #expect(
            element(##"{"id":"a","url":"http://h/#${checksum}|$|${|${}|${HOME}|\u0024{id}|${unknown}"}"##)
                == ##"{"id":"a","url":"http://h/#|$|${|${}|${HOME}|\u0024{id}|${unknown}"}"##)
    }

    @Test("a step within a step keeps its names, which refer to that step") func nested() {
        #expect(
            element(#"{"url":"http://h/${id}","id":"a","then":{"url":"http://h/${id}"},"else":[{"url":"${error}"}]}"#)
                == #"{"url":"http://h/film-17","id":"a","then":{"url":"http://h/${id}"},"else":[{"url":"${error}"}]}"#)
    }

    @Test("a step without an id gets the derived one") func identity() {
        let step = Job.Step(json: #"{"url":"http://h/"}"#).element(Self.values, id: "derived")
        #expect(step.id == "derived" && step.text == #"{"id":"derived","url":"http://h/"}"#)
        #expect(Job.Step(json: #"{"id":"x${id}","url":"http://h/"}"#).element(Self.values, id: "d").id == "xfilm-17")
    }

    @Test("however often a long value is repeated, the element ends a byte behind the limit, where it is refused")
    func bounded() {
        let step = #"{"url":"http://h/","meta":""# + String(repeating: "${file}", count: 2000) + #""}"#
        let text = element(step, ["file": String(repeating: "é", count: 2000)])
        #expect(JobField.maxElementBytes + 1...JobField.maxElementBytes + 3 ~= text.utf8.count)
        #expect(throws: Job.Invalid(field: nil, reason: JobField.elementRule)) { try Job(element: text.utf8) }
    }

    @Test("a job is written and read with its steps, and a step may be a job or JSON") func written() throws {
        var job = Job("http://h/a", id: "a")
        var call = Job.request("POST", "http://h/done", id: "done-${id}")
        call.request.json = #"{"f":"${file}"}"#
        job.then = [Job.Step(call), Job.Step(json: #"{"url":"http://h/b","checksum":"${checksum}"}"#)]
        job.else = [Job.Step(Job("http://mirror/a"))]
        let read = try Job(element: job.element.utf8)
        #expect(read == job)
        #expect(try read.checkSteps().isEmpty)
        #expect(job.element.contains(#""else":{"url":"http://mirror/a"}"#))
    }

    @Test(
        "a step that could not be a job is refused with its list, its number and its field",
        arguments: [
            (#""then":{"id":"a"}"#, "then: url: is missing"),
            (
                #""then":[{"url":"http://h/"},{"url":"ftp://h/"}]"#,
                "then: number 2: url: must begin with http:// or https://"
            ),
            (#""else":{"url":"http://h/","at":1763712000000}"#, "else: at: is not a field of a step"),
            (
                #""else":{"url":"http://h/${file}"}"#,
                "else: url: has ${file}, and a step may only refer to error, id here"
            ),
            (
                #""then":{"url":"http://h/${fiel}"}"#,
                "then: url: has ${fiel}, and a step may only refer to bytes, checksum, file, id here"
            ),
            (
                #""kind":"request","then":{"url":"http://h/${file}"}"#,
                "then: url: has ${file}, and a step may only refer to bytes, id here"
            ),
            (#""then":{"url":"http://h/","max_hops":1}"#, "then: max_hops: " + JobField.unknownLimitRule),
            (
                #""then":{"url":"http://h/","then":{"url":"http://h/","else":{"url":"http://h/","size":"${bytes}"}}}"#,
                "then: then: else: size: has ${bytes}, and a step may only refer to error, id here"
            ),
        ])
    func refused(_ members: String, _ reason: String) throws {
        let job = try Job(element: Array(#"{"url":"http://h/",\#(members)}"#.utf8))
        let error = #expect(throws: Job.Invalid.self) { try job.checkSteps() }
        #expect(error?.description == reason)
    }

    @Test("unknown fields of steps are named with their place") func unknown() throws {
        let job = try Job(
            element: Array(
                #"{"url":"http://h/","then":{"url":"http://h/","x":1,"else":{"url":"http://h/","y":1}}}"#.utf8))
        #expect(try job.checkSteps() == ["then.x", "then.else.y"])
    }
}
