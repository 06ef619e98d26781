import Foundation
import HaulTestSupport
import Testing

@Suite struct StatsHostsTests {
    /// Failed jobs of one host, all of now.
    private static let fail = """
        for number = 1, tonumber(ARGV[1]) do
          redis.call('ZADD', 'haul:{default}:failed', ARGV[2], 'f' .. number)
          redis.call('HSET', 'haul:{default}:job:f' .. number, 'state', 'failed', 'url', 'http://h.example/', 'error', 'dns')
        end
        """

    @Test("the list of hosts says of how many failures it has counted the newest ones") func counted() async throws {
        let bench = try await CommandBench()
        let now = String(Int64(Date().timeIntervalSince1970 * 1000))
        _ = try await bench.server.cli("EVAL", Self.fail, "0", "1000", now)
        let whole = try await bench.haul("stats", "--hosts")
        #expect(whole.out.contains("h.example") && whole.err.isEmpty, "\(whole.err)")
        _ = try await bench.server.cli("EVAL", Self.fail, "0", "1002", now)
        let cut = try await bench.haul("stats", "--hosts")
        #expect(cut.err == "haul: FAILED counts the newest 1000 of 1002 failed jobs\n")
    }
}
