import HaulStorage
import HaulTestSupport
import Testing

@testable import HaulObjectStore

/// Checks that a bucket is a store.
@Suite(
    .disabled(
        if: ObjectServer.dialects.isEmpty, "no object store is installed: deploy/test.sh does that"))
struct ConformanceTests {
    @Test(
        "a bucket does what a store must do", arguments: ObjectServer.dialects, StoreConformance.Check.allCases)
    func conforms(_ kind: ObjectServer.Kind, _ check: StoreConformance.Check) async throws {
        let bucket = try await Bucket(kind)
        let conformance = StoreConformance(
            bucket.store, sources: bucket.store, read: { await bucket.read($0) }, write: { await bucket.write($0, $1) })
        try await conformance.run(check)
    }
}
