import Foundation
import Glibc
import HaulContract
import HaulHTTP
import HaulTestSupport

@testable import HaulObjectStore

/// A store for one test, in the bucket of a real server.
struct Bucket: Sendable {
    let store: ObjectStore
    let server: ObjectServer

    init(_ kind: ObjectServer.Kind, prefix: String? = nil, memory: Int = ObjectStore.memory) async throws {
        try self.init(try await .shared(kind), prefix: prefix, memory: memory)
    }

    /// - Parameter endpoint: A gateway in front of the server.
    init(
        _ server: ObjectServer, endpoint: String? = nil, prefix: String? = nil, memory: Int = ObjectStore.memory
    ) throws {
        self.server = server
        // Its number of characters is not that of its bytes.
        let prefix = prefix ?? "tü\(UInt64.random(in: 0...(.max)))"
        let address = try BucketAddress("s3://\(server.bucket)/\(prefix)", endpoint: endpoint ?? server.endpoint)
        var options = ObjectStore.Options()
        options.memory = memory
        let environment = server.environment
        store = ObjectStore(address, options: options, environment: { environment[$0] }, isReadable: { _ in false })
    }

    /// The content of an object. nil if there is none.
    func read(_ path: String) async -> [UInt8]? {
        try? await store.client.get(store.client.address.key(path), limit: 1 << 30)
    }

    /// Writes an object without the store.
    func write(_ path: String, _ bytes: [UInt8]) async {
        _ = try? await store.client.put(store.client.address.key(path), RequestMemory(bytes), md5: Digest.md5(bytes))
    }

    /// The paths of all objects, and the number of uploads that were not ended, after the work in the background.
    func everything() async throws -> (objects: [String], uploads: Int) {
        await store.runDeferredWork()
        let prefix = store.client.address.key("")
        let objects = try await store.client.list(prefix).objects.map {
            String(decoding: $0.key.utf8.dropFirst(prefix.utf8.count), as: UTF8.self)
        }
        return (objects.filter { $0 != HiddenKeys.probe }, try await store.client.uploads(prefix).count)
    }
}
