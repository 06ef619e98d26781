import Contract
import Glibc
import TestSupport
import Testing

@testable import Download

/// Many files that want the same name.
@Suite struct NameTests {
    @Test(
        "a file for which all numbered names are taken fails, and is never taken for another's",
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
}
