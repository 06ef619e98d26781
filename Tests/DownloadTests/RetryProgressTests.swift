import HaulContract
import HaulTestSupport
import Testing

@testable import HaulActivities

/// Servers and middleboxes that end connections early. A connection that adds bytes to the file is not a failure.
@Suite struct RetryProgressTests {
    /// An origin that ends each connection after so many bytes of a body.
    private func cutting(_ bytes: FileBytes, after count: Int) throws -> OriginServer {
        try OriginServer { request in
            var reply = OriginReply.file(bytes, to: request)
            (reply.cut, reply.end) = (count, .fin)
            return reply
        }
    }

    private func job(_ origin: OriginServer, connections: Int) -> Job {
        var job = Job(id: "j", urls: [origin.url("/a")])
        job.connections = connections
        return job
    }

    @Test("a file is complete after one run, however many connections it takes", arguments: [1, 4])
    func cut(_ connections: Int) async throws {
        let bench = try DownloadBench()
        let bytes = FileBytes(seed: 131, count: 40 << 20)
        let origin = try cutting(bytes, after: 1 << 20)
        #expect(await bench.run(job(origin, connections: connections)).file?.bytes == bytes.count)
        #expect(bench.directory.holds("a", bytes))
        if connections == 1 {
            #expect(origin.requests.count == 40)
            #expect(origin.bytesSent("/a") == bytes.count)
        }
    }

    @Test("for a short file a small part is enough progress") func short() async throws {
        let bench = try DownloadBench()
        let bytes = FileBytes(seed: 132, count: 100_000)
        let origin = try cutting(bytes, after: 10_000)
        #expect(await bench.run(job(origin, connections: 1)).file?.bytes == bytes.count)
        #expect(origin.requests.count == 10)
    }

    @Test("a server that sends one byte per connection gets no further requests") func bytewise() async throws {
        let bench = try DownloadBench()
        let origin = try cutting(FileBytes(seed: 133, count: 40 << 20), after: 1)
        let download = bench.download(job(origin, connections: 1))
        #expect(await download.outcome().code == .incomplete)
        #expect(origin.requests.count == 1)
        #expect(!download.hasMadeProgress)
        await download.discard()
    }

    @Test(
        "a run reports progress, unless its bytes cannot be continued", arguments: [true, false])
    func reported(_ isResumable: Bool) async throws {
        let bench = try DownloadBench()
        let bytes = FileBytes(seed: 134, count: 4 << 20)
        let origin = try OriginServer { request in
            guard request.number == 1 else { return OriginReply(503) }
            var reply = OriginReply.file(bytes, etag: isResumable ? "\"v1\"" : nil, to: request)
            (reply.cut, reply.end) = (1 << 20, .fin)
            return reply
        }
        let download = bench.download(job(origin, connections: 1))
        #expect(await download.outcome().code == (isResumable ? .http(503) : .incomplete))
        #expect(download.hasMadeProgress == isResumable)
        await download.discard()
    }
}
