import Glibc
import HaulContract
import HaulTestSupport
import Testing

@testable import HaulFileStore
@testable import HaulHTTP

/// Host names with several addresses, some of which do not respond.
@Suite struct AddressTests {
    private static let answer = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

    /// Sends a request to a server on 127.0.0.1. The name of its host has addresses of these kinds before 127.0.0.1.
    private func ask(after kinds: [LoopbackAddress.Kind], within limit: Duration, last: UInt8) async throws
        -> Result<Transfer, TransferError>
    {
        let server = RawServer { connection in
            while connection.readRequest() != nil { connection.send(Self.answer) }
        }
        defer { server.stop() }
        var addresses: [String] = []
        var held: [LoopbackAddress] = []
        for (index, kind) in kinds.enumerated() {
            addresses.append("127.0.\(last).\(index + 2)")
            held.append(try LoopbackAddress(kind, at: addresses[index], port: server.port))
        }
        var configuration = TransferEngine.Configuration()
        configuration.policy = .unrestricted
        configuration.addresses = [
            "many.test:\(server.port):" + (addresses + ["127.0.0.1"]).joined(separator: ",")
        ]
        let engine = TransferEngine(configuration: configuration)
        var request = localRequest("http://many.test:\(server.port)/")
        request.connectTimeout = limit
        defer { withExtendedLifetime(held) {} }
        do throws(TransferError) {
            let transfer = try await engine.start(request)
            await transfer.discard()
            return .success(transfer)
        } catch {
            return .failure(error)
        }
    }

    @Test("a silent first address takes half of the connect timeout, and then the next one responds")
    func silent() async throws {
        let result = try await ask(after: [.silent], within: .seconds(4), last: 11)
        #expect(try result.get().head.remoteAddress == "127.0.0.1")
    }

    @Test("all addresses are tried in time, even after silent and refusing ones")
    func mixed() async throws {
        let result = try await ask(after: [.refusing, .silent, .refusing, .silent], within: .seconds(8), last: 12)
        #expect(try result.get().head.remoteAddress == "127.0.0.1")
    }

    @Test("refusing addresses cost almost no time")
    func refusing() async throws {
        let begun = ContinuousClock.now
        let result = try await ask(after: [.refusing, .refusing], within: .seconds(200), last: 13)
        #expect(try result.get().head.remoteAddress == "127.0.0.1")
        // With libcurl's own timers the first address alone would take a hundred seconds.
        #expect(ContinuousClock.now - begun < .seconds(30))
    }
}
