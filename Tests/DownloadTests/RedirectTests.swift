import Foundation
import HaulContract
import HaulHTTP
import HaulTestSupport
import Testing

@testable import HaulActivities

/// Which parts of a request follow a redirect, and which do not.
@Suite struct RedirectTests {
    private func job(_ url: String, headers: [HeaderField] = []) -> Job {
        var job = Job(id: "j", urls: [url])
        job.headers = headers
        return job
    }

    /// An origin whose `/a` redirects to its `/b`, and that to `/c` of `other`. There `/c` redirects to the file `/d`.
    private func chain(to other: OriginServer) throws -> OriginServer {
        try OriginServer { request in
            request.path == "/a"
                ? OriginReply(301, headers: [("Location", "/b")])
                : OriginReply(307, headers: [("Location", other.url("/c"))])
        }
    }

    private func other() throws -> OriginServer {
        try OriginServer { request in
            request.path == "/c" ? OriginReply(308, headers: [("Location", "d")]) : OriginReply(body: [1])
        }
    }

    @Test("a bearer token and custom headers are sent only to their own origin") func bearer() async throws {
        let other = try other()
        let origin = try chain(to: other)
        let headers = [
            HeaderField("Authorization", "Bearer t0ken"), HeaderField("X-Api-Key", "key"),
            HeaderField("Cookie", "session=1"), HeaderField("Referer", "http://intern/"),
        ]
        #expect(try await DownloadBench().run(job(origin.url("/a"), headers: headers)).file != nil)
        #expect(origin.requests.map(\.path) == ["/a", "/b"] && other.requests.map(\.path) == ["/c", "/d"])
        for field in headers {
            #expect(origin.requests.allSatisfy { $0.headers[field.name.lowercased()] == field.value }, "\(field.name)")
            #expect(other.requests.allSatisfy { $0.headers[field.name.lowercased()] == nil }, "\(field.name)")
        }
    }

    @Test("a producer's traceparent is sent within the job's origin, and the job's own header overrides it")
    func trace() async throws {
        let trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
        for (own, expected) in [([], trace), ([HeaderField("Traceparent", "mine")], "mine")] {
            let other = try other()
            let origin = try chain(to: other)
            var job = job(origin.url("/a"), headers: own)
            job.meta = #"{"order":7,"traceparent":"\#(trace)"}"#
            #expect(try await DownloadBench().run(job).file != nil)
            #expect(origin.requests.count == 2)
            #expect(origin.requests.allSatisfy { $0.headers["traceparent"] == expected })
            #expect(other.requests.allSatisfy { $0.headers["traceparent"] == nil })
        }
        // An invalid traceparent is not sent.
        let origin = try OriginServer { _ in OriginReply(body: [1]) }
        var job = job(origin.url("/a"))
        job.meta = #"{"traceparent":"\#(trace.dropLast(2))0x","more":"\#(trace)"}"#
        #expect(try await DownloadBench().run(job).file != nil)
        #expect(origin.requests.allSatisfy { $0.headers["traceparent"] == nil })
    }

    @Test("basic credentials of the URL are sent only to their own origin") func basic() async throws {
        let other = try other()
        let origin = try chain(to: other)
        let url = origin.url("/a").replacingOccurrences(of: "://", with: "://user:p%40ss@")
        #expect(try await DownloadBench().run(job(url)).file != nil)
        let expected = "Basic " + Data("user:p@ss".utf8).base64EncodedString()
        #expect(origin.requests.count == 2)
        #expect(origin.requests.allSatisfy { $0.headers["authorization"] == expected })
        #expect(other.requests.allSatisfy { $0.headers["authorization"] == nil })
    }

    @Test(
        "after a POST, 301 to 303 lead to a plain GET, and 307 and 308 repeat the request",
        arguments: [301, 302, 303, 307, 308])
    func method(_ status: Int) async throws {
        let origin = try OriginServer { request in
            request.path == "/a"
                ? OriginReply(status, headers: [("Location", "/b")]) : OriginReply(body: [1])
        }
        var job = job(origin.url("/a"), headers: [HeaderField("Content-Type", "text/csv")])
        (job.method, job.body) = ("POST", "a,b")
        #expect(try await DownloadBench().run(job).file != nil)
        let isGet = status <= 303
        #expect(origin.requests.map(\.method) == ["POST", isGet ? "GET" : "POST"])
        #expect(origin.requests.map { $0.headers["content-length"] } == ["3", isGet ? nil : "3"])
        #expect(origin.requests.map { $0.headers["content-type"] } == ["text/csv", isGet ? nil : "text/csv"])
    }

    @Test("credentials and headers are kept if a redirect names the same origin in full") func absolute() async throws {
        let address = Shared("")
        let origin = try OriginServer { request in
            request.path == "/a"
                ? OriginReply(302, headers: [("Location", "\(address.value)/b")]) : OriginReply(body: [1])
        }
        address.value = origin.url("")
        let url = origin.url("/a").replacingOccurrences(of: "://", with: "://user:pass@")
        #expect(try await DownloadBench().run(job(url, headers: [HeaderField("X-Key", "k")])).file != nil)
        #expect(origin.requests.count == 2)
        #expect(origin.requests.allSatisfy { $0.headers["authorization"]?.hasPrefix("Basic ") == true })
        #expect(origin.requests.allSatisfy { $0.headers["x-key"] == "k" })
    }

    @Test("another port of the same host is another origin, and so is the same host with TLS")
    func ports() async throws {
        let certificates = try await Certificates()
        let secure = try OriginServer(certificates: certificates) { _ in OriginReply(body: [1]) }
        let origin = try OriginServer { _ in OriginReply(302, headers: [("Location", secure.url("/a"))]) }
        let bench = try DownloadBench { $0.certificateAuthorities = certificates.file("ca.pem") }
        #expect(await bench.run(job(origin.url("/a"), headers: [HeaderField("Authorization", "Bearer t")])).file != nil)
        #expect(secure.requests.count == 1 && secure.requests[0].headers["authorization"] == nil)
    }

    @Test("credentials in a redirect are used at its target only") func given() async throws {
        let other = try other()
        let target = other.url("/c").replacingOccurrences(of: "://", with: "://guest:pw@")
        let origin = try OriginServer { _ in OriginReply(302, headers: [("Location", target)]) }
        #expect(try await DownloadBench().run(job(origin.url("/a"))).file != nil)
        #expect(origin.requests.allSatisfy { $0.headers["authorization"] == nil })
        #expect(other.requests.count == 2 && other.requests.allSatisfy { $0.headers["authorization"] != nil })
    }

    @Test("cookies return to their server, in redirects and for each part, and not in the next download")
    func cookies() async throws {
        let bytes = FileBytes(seed: 61, count: 3_000_000)
        let latch = Latch()
        let other = try OriginServer { request in
            var reply = OriginReply.file(bytes, headers: [("Set-Cookie", "last=9")], to: request)
            if request.number == 1 { reply.hold = (500_000, latch) }
            return request.path == "/c"
                ? OriginReply(302, headers: [("Location", "/d"), ("Set-Cookie", "there=2; Path=/; HttpOnly")]) : reply
        }
        let origin = try OriginServer { request in
            switch request.path {
            case "/a":
                OriginReply(
                    302,
                    headers: [("Location", "/b"), ("Set-Cookie", "here=1; Secure"), ("Set-Cookie", "gone=1")])
            default:
                OriginReply(302, headers: [("Location", other.url("/c")), ("Set-Cookie", "gone=2")])
            }
        }
        let bench = try DownloadBench()
        for index in 0..<2 {
            var job = job(origin.url("/a"))
            job.path = "file\(index)"
            let outcome =
                index == 0 ? try await bench.run(job, holding: latch, of: other) : await bench.run(job)
            #expect(outcome.file?.bytes == bytes.count)
        }
        let (first, second) = (origin.requests.map { $0.headers["cookie"] }, other.requests)
        #expect(first == [nil, "here=1; gone=1", nil, "here=1; gone=1"])
        #expect(second.filter { $0.path == "/c" }.allSatisfy { $0.headers["cookie"] == nil })
        #expect(second.count > 4 && second.filter { $0.path == "/d" }.allSatisfy { $0.headers["cookie"] == "there=2" })
        #expect(bench.directory.holds("file0", bytes) && bench.directory.holds("file1", bytes))
    }

    @Test("if a redirect's target has expired, further connections ask the original URL for a new one")
    func expiring() async throws {
        let bytes = FileBytes(seed: 62, count: 3_000_000)
        let latch = Latch()
        let tickets = Shared<(given: Int, used: Set<String>)>((0, []))
        let origin = try OriginServer { request in
            if request.path == "/a" {
                let number = tickets.change {
                    $0.given += 1
                    return $0.given
                }
                return OriginReply(302, headers: [("Location", "/signed?ticket=\(number)")])
            }
            // Each target is valid for one request.
            guard tickets.change({ $0.used.insert(request.path).inserted }) else { return OriginReply(403) }
            var reply = OriginReply.file(bytes, to: request)
            if request.headers["range"] == nil { reply.hold = (500_000, latch) }
            return reply
        }
        let bench = try DownloadBench()
        var job = job(origin.url("/a"))
        job.connections = 4
        let task = Task { await bench.run(job) }
        try await eventually("a part from another target") {
            origin.requests.contains { $0.headers["range"] != nil && $0.path.hasSuffix("=2") }
        }
        latch.open()
        #expect(await task.value.file?.bytes == bytes.count)
        #expect(bench.directory.holds("a", bytes))
        #expect(tickets.value.used.count >= 2)
    }

    @Test("a job's User-Agent is sent wherever a redirect leads") func userAgent() async throws {
        let other = try other()
        let origin = try chain(to: other)
        #expect(
            try await DownloadBench().run(job(origin.url("/a"), headers: [HeaderField("User-agent", "Mine/1")])).file
                != nil)
        #expect(other.requests.count == 2)
        #expect((origin.requests + other.requests).allSatisfy { $0.headers["user-agent"] == "Mine/1" })
    }
}
