import HaulContract
import HaulHTTP
import HaulStorage

/// An object below the store's prefix that a job uploads to another server. Every range is requested with If-Match and
/// the ETag that the object had when it was opened, so all bytes are of one version.
final class ObjectSource: SourceFile {
    let version: SourceVersion
    private let path: String
    private let key: String
    private let etag: String
    private let client: BucketClient

    /// - Throws: `source_missing` if there is no such object; `io` if the server sends no ETag.
    init(_ path: String, in client: BucketClient) async throws(TransferError) {
        let key = client.address.key(path.pathParts.joined(separator: "/"))
        let head: ObjectHead?
        do throws(StoreError) { head = try await client.head(key) } catch { throw error.transferError }
        guard let head else {
            throw TransferError(.sourceMissing, "the object \(path) does not exist in \(client.address)")
        }
        guard let etag = head.etag else {
            throw TransferError(
                .io, "the object store sends no ETag of \(path), so a change could not be detected")
        }
        (self.path, self.key, self.etag, self.client) = (path, key, etag, client)
        version = SourceVersion(size: head.size, validator: etag)
    }

    /// Larger than the default of 256 KiB, because each read is a request and costs a round trip.
    var readSize: Int64 { 2 << 20 }

    func read(_ range: Range<Int64>) async throws(TransferError) -> [UInt8] {
        do throws(StoreError) { return try await client.get(key, range, ifMatch: etag) } catch {
            throw transferError(for: error)
        }
    }

    func check() async throws(TransferError) {
        let head: ObjectHead?
        do throws(StoreError) { head = try await client.head(key) } catch { throw transferError(for: error) }
        guard head?.etag == etag else { throw changed }
    }

    private func transferError(for failure: StoreError) -> TransferError {
        // A server without If-Match may refuse the range instead, because the object is shorter now.
        let isChange = [.precondition, .noSuchObject].contains(failure.kind) || failure.status == 416
        return isChange ? changed : failure.transferError
    }

    private var changed: TransferError {
        TransferError(
            .sourceChanged,
            "the object \(path) was replaced or deleted while it was sent; push the job again when the object no longer changes"
        )
    }
}
