import Glibc
import HaulFileStore
import HaulStorage
import HaulTestSupport
import Testing

/// Checks that a directory is a store.
@Suite struct ConformanceTests {
    @Test("a directory does what a store must do", arguments: StoreConformance.Check.allCases)
    func conforms(_ check: StoreConformance.Check) async throws {
        let root = TemporaryDirectory()
        let store = try FileStore(root: root.path)
        let conformance = StoreConformance(store, sources: try SourceDirectory(root.path)) { path in
            let descriptor = open(root.file(path), O_RDONLY)
            guard descriptor >= 0 else { return nil }
            defer { close(descriptor) }
            return contents(descriptor)
        } write: { path, bytes in
            mkdir(root.file("a"), 0o755)
            let descriptor = open(root.file(path), O_WRONLY | O_CREAT | O_TRUNC, 0o644)
            _ = Glibc.write(descriptor, bytes, bytes.count)
            close(descriptor)
        }
        try await conformance.run(check)
    }
}
