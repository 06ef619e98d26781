import Glibc
import HaulContract
import HaulTestSupport
import Synchronization
import Testing

@testable import HaulActivities

/// Many files that compete for the same name.
@Suite struct NameTests {
    @Test(
        "a file fails if all numbered names are taken, and replaces no other file",
        arguments: [true, false])
    func taken(_ isSmall: Bool) async throws {
        let bench = try DownloadBench()
        let bytes = FileBytes(seed: 121, count: isSmall ? 1000 : 200_000)
        let origin = try OriginServer { .file(bytes, to: $0) }
        for number in 0...10_000 {
            close(creat(bench.directory.file(number == 0 ? "a.bin" : "a (\(number)).bin"), 0o600))
        }
        let job = Job(id: "j", urls: [origin.url("/a.bin")])
        #expect(await bench.run(job).code == .fileExists)
        unlink(bench.directory.file("a (7000).bin"))
        #expect(await bench.run(job).file?.file == "a (7000).bin")
        #expect(bench.directory.holds("a (7000).bin", bytes))
    }

    @Test(
        "an unrequested encoding is stored as it arrives, with its suffix and a warning",
        arguments: [
            ("gzip", "/page.html", nil, "page.html.gz", true), ("x-gzip", "/p", nil, "p.gz", true),
            ("br", "/p.js", "in/", "in/p.js.br", true), ("zstd, gzip", "/p", nil, "p.zst.gz", true),
            ("odd", "/p.html", nil, "p.html", true), ("gzip", "/p.html", "mine.html", "mine.html", true),
            ("gzip", "/p.html", "mine.html.gz", "mine.html.gz", false), ("gzip", "/a.tar.gz", nil, "a.tar.gz", false),
            ("GZIP", "/a.tgz", nil, "a.tgz", false), ("identity", "/p.html", nil, "p.html", false),
            ("", "/p.html", nil, "p.html", false),
        ] as [(String, String, String?, String, Bool)])
    func compressed(_ encoding: String, _ url: String, _ path: String?, _ name: String, _ isWarned: Bool) async throws {
        for count in [1000, 200_000] as [Int64] {
            let bench = try DownloadBench()
            let bytes = FileBytes(seed: 122, count: count)
            let origin = try OriginServer { .file(bytes, headers: [("Content-Encoding", encoding)], to: $0) }
            var job = Job(id: "j", urls: [origin.url(url)])
            job.path = path
            #expect(await bench.run(job).file?.file == name)
            #expect(bench.directory.holds(name, bytes))
            #expect(bench.events.withLock { $0.contains("warning") } == isWarned)
        }
    }
}
