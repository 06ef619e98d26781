package import HaulContract
package import HaulHTTP

/// An engine that may connect to 127.0.0.0/8, and nowhere else.
package func localEngine() -> TransferEngine {
    var configuration = TransferEngine.Configuration()
    configuration.policy = .restricted(allowed: [Network("127.0.0.0/8")!])
    return TransferEngine(configuration: configuration)
}

package func localRequest(_ url: String) -> HTTPRequest {
    var request = HTTPRequest(url: url)
    request.connectTimeout = .seconds(60)
    request.stallTimeout = .seconds(60)
    return request
}

/// Starts the request, and returns its body.
package func fetch(_ engine: TransferEngine, _ request: HTTPRequest, limit: Int = 1 << 24) async throws(TransferError)
    -> [UInt8]
{
    try await engine.start(request).collect(limit: limit)
}

extension TransferError {
    package var code: ErrorCode? { if case .failed(let failure) = self { failure.code } else { nil } }
    package var message: String? { if case .failed(let failure) = self { failure.message } else { nil } }
}

extension TransferEnd {
    /// The end of a transfer that began at offset 0.
    package init(_ bytes: Int64, _ reason: Reason, isOverlong: Bool = false) {
        self.init(position: bytes, bytes: bytes, reason: reason, isOverlong: isOverlong)
    }
}
