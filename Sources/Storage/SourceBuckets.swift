package import HaulHTTP

/// The buckets whose objects jobs may download, with the credentials that the operator has given to each.
package protocol SourceBuckets: Sendable {
    /// Requests an object, `s3://BUCKET/KEY`, and returns the response with its body paused at the first byte. Its status
    /// is 200, 206, 304 or 416.
    ///
    /// - Parameter request: Gives the conditions and the range, the time limits and the limits of rate. Its URL is not
    ///   used.
    /// - Throws: `address_forbidden` if the bucket is not one of these; `http_…` if the bucket refuses the request.
    func start(_ request: HTTPRequest, for url: WebURL) async throws(TransferError) -> Transfer

    /// Reports the buckets for which there are no credentials to the operator.
    func check() async
}
