import HaulContract
import HaulHTTP
import Testing

@testable import HaulObjectStore

/// The responses of a store, and what follows from them.
@Suite struct ProtocolTests {
    @Test("XML is read without its namespaces") func xml() throws {
        let root = try #require(
            XMLElement(
                Array(
                    """
                    <?xml version="1.0"?><a:List xmlns:a="urn:x"><a:Part><a:N>1</a:N></a:Part>
                    <a:Part><a:N> &amp;2 </a:N></a:Part></a:List>
                    """.utf8)))
        #expect(root.name == "List")
        #expect(root.all("Part").map { $0.text("N") } == ["1", " &2 "])
    }

    @Test(
        "malformed XML is not read",
        arguments: [
            "", "no", "<a>", "<a></b>", "<!DOCTYPE a [<!ENTITY x \"y\">]><a>&x;</a>",
            String(repeating: "<a>", count: 40) + String(repeating: "</a>", count: 40),
        ]) func malformed(_ text: String)
    { #expect(XMLElement(Array(text.utf8)) == nil) }

    @Test("special characters of XML are escaped") func escaping() throws {
        let text = "<a & \"b\">"
        #expect(XMLElement(Array("<x>\(XMLElement.escape(text))</x>".utf8))?.text == text)
    }

    private func refusal(_ status: Int, _ code: String?, _ headers: [HeaderField] = []) -> StoreError {
        let body = code.flatMap { XMLElement(Array("<Error><Code>\($0)</Code><Message>m</Message></Error>".utf8)) }
        return StoreError(status: status, headers: HeaderFields(headers), body: body)
    }

    @Test("an error response is classified by its status and its code") func kinds() {
        let table: [(Int, String?, StoreError.Kind)] = [
            (503, "SlowDown", .throttled), (503, nil, .throttled), (429, nil, .throttled),
            (500, "InternalError", .transient),
            (200, "InternalError", .transient), (403, "RequestTimeTooSkewed", .clock), (400, "ExpiredToken", .expired),
            (404, "NoSuchUpload", .noSuchUpload), (404, "NoSuchKey", .noSuchObject), (404, nil, .noSuchObject),
            (404, "NoSuchBucket", .noSuchBucket), (412, nil, .precondition), (501, nil, .unknownRequest),
            (403, nil, .denied), (507, nil, .full), (400, "InvalidPart", .permanent), (400, "BadDigest", .transient),
        ]
        for (status, code, kind) in table { #expect(refusal(status, code).kind == kind) }
        #expect(refusal(301, nil, [HeaderField("x-amz-bucket-region", "eu-west-1")]).kind == .region("eu-west-1"))
        #expect(refusal(403, nil).failure.code == .permission)
        #expect(refusal(400, "InvalidPart").failure.code == .io)
    }

    @Test("a server's message about a signature is not repeated") func signatureIsNotSaid() {
        let body = XMLElement(
            Array("<Error><Code>SignatureDoesNotMatch</Code><Message>secret things</Message></Error>".utf8))
        #expect(!StoreError(status: 403, headers: HeaderFields(), body: body).summary.contains("secret"))
    }

    @Test("a bucket that throttles gets fewer requests, and more again when it serves") func pace() {
        var pace = BucketThrottle()
        let first = pace.turn(at: 0)
        #expect(first == 0)
        pace.recordThrottled(at: 0)
        // Refusals of requests that were sent together count once.
        pace.recordThrottled(at: 0.5)
        #expect(pace.gap == 0.05)
        let turns = [pace.turn(at: 0.5), pace.turn(at: 0.5)]
        #expect(turns[0] == 0 && abs(turns[1] - 0.05) < 1e-9)
        for second in 2..<20 { pace.recordThrottled(at: Double(second)) }
        #expect(pace.gap == 5)
        for _ in 0..<20 { pace.recordSuccess() }
        let last = pace.turn(at: 30)
        #expect(pace.gap == 0 && last == 0)
    }

    @Test("the backoff doubles, up to a bound") func waits() {
        var generator = SystemRandomNumberGenerator()
        for number in 1...40 {
            let wait = RequestBackoff.wait(before: number, using: &generator)
            #expect(wait >= .milliseconds(50) && wait <= .seconds(min(10, 0.1 * Double(1 << min(number, 12)))))
        }
    }

    @Test("a wrong clock is corrected by the server's date") func skew() {
        var skew = ClockSkew()
        let now = HTTPDate.parse("Sun, 06 Nov 1994 08:49:37 GMT")!
        func noted(date: String?) -> (Bool, Int64) { (skew.record(date: date, at: now), skew.seconds) }
        #expect(noted(date: "Sun, 06 Nov 1994 08:49:50 GMT") == (false, 0))
        #expect(noted(date: "Sun, 06 Nov 1994 09:05:37 GMT") == (true, 960))
        #expect(noted(date: "Sun, 06 Nov 1994 09:05:39 GMT") == (false, 960))
        #expect(noted(date: "Sun, 06 Nov 1994 08:49:37 GMT") == (true, 0))
        #expect(noted(date: nil) == (false, 0))
    }

    @Test("a store's address is parsed, or refused with an error") func address() throws {
        let plain = try BucketAddress("s3://films")
        #expect(plain.prefix == "" && plain.region == "us-east-1" && plain.key("a/b") == "a/b")
        #expect(
            plain.location(of: "k", region: "eu-west-1") == (
                "https://films.s3.eu-west-1.amazonaws.com", "films.s3.eu-west-1.amazonaws.com", "/k"
            ))
        let own = try BucketAddress("s3://films/a//b/", endpoint: "http://127.0.0.1:9000")
        #expect(own.prefix == "a/b" && own.key("x") == "a/b/x" && own.description == "s3://films/a/b")
        #expect(own.location(of: "k", region: "r") == ("http://127.0.0.1:9000", "127.0.0.1:9000", "/films/k"))
        let virtual = try BucketAddress("s3://films", endpoint: "https://s3.example.org", isPathStyle: false)
        #expect(
            virtual.location(of: "k", region: "r") == ("https://films.s3.example.org:443", "films.s3.example.org", "/k")
        )
        for wrong in ["films", "s3://", "s3://a", "s3://b ad", "s3://films/.haul/x", "s3://films/../x"] {
            #expect(throws: Failure.self) { try BucketAddress(wrong) }
        }
        for wrong in ["127.0.0.1", "ftp://x", "http://x/path", "http://u:p@x"] {
            #expect(throws: Failure.self) { try BucketAddress("s3://films", endpoint: wrong) }
        }
    }
}
