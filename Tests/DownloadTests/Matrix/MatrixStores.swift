import HaulFileStore
import HaulStorage
import HaulTestSupport

@testable import HaulObjectStore

/// The location of one case's file: two stores at the same location, as two workers have them.
struct MatrixStores: Sendable {
    let here: any Store
    let elsewhere: any Store
    /// Whether each checkpoint covers every byte.
    let keepsEachByte: Bool
    /// The content of the finished file. nil if there is none.
    let contents: @Sendable () async -> [UInt8]?

    /// Shared by all cases.
    private static let diskWriter = DiskWriter(blocks: 16)

    static func directory() throws -> MatrixStores {
        let directory = TemporaryDirectory()
        let stores = try (0...1).map { _ in try FileStore(root: directory.path, diskWriter: diskWriter) }
        return MatrixStores(here: stores[0], elsewhere: stores[1], keepsEachByte: true) { directory.contents("f") }
    }

    static func bucket(_ server: ObjectServer) throws -> MatrixStores {
        let address = try BucketAddress(
            "s3://\(server.bucket)/m\(UInt64.random(in: 0...(.max)))", endpoint: server.endpoint)
        let environment = server.environment
        let stores = (0...1).map { _ in
            ObjectStore(address, environment: { environment[$0] }, isReadable: { _ in false })
        }
        return MatrixStores(here: stores[0], elsewhere: stores[1], keepsEachByte: false) {
            try? await stores[0].client.get(address.key("f"), limit: 1 << 24)
        }
    }
}
