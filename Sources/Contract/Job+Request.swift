extension Job {
    /// A name and a value of a query or of a form.
    public struct Item: Sendable, Equatable {
        /// The name, not percent-encoded.
        public var name: String
        /// The value, not percent-encoded.
        public var value: String
        /// A pair of plain texts. The worker encodes both when it sends them.
        public init(_ name: String, _ value: String) { (self.name, self.value) = (name, value) }
    }

    /// The fields of a request, for jobs of the kinds ``Kind/request`` and ``Kind/upload``. Its method, its headers and
    /// a text body are in ``Job/method``, ``Job/headers`` and ``Job/body``.
    public struct Request: Sendable, Equatable {
        /// Items that are added to the URL's query.
        public var query: [Item] = []
        /// The body as JSON text, which is sent byte for byte.
        public var json: String?
        /// The body as a form.
        public var form: [Item] = []
        /// The body in base 64, for bytes that are not text.
        public var bodyBase64: String?
        /// The statuses that count as success. If empty, 200 to 299.
        public var expect: [ClosedRange<Int>] = []
        /// The maximum body of the response in bytes, at most 1 MiB. A longer response makes the job fail.
        public var maxResponse: Int?
        /// Whether the server recognizes a repeated request by its Idempotency-Key, which is the job's id. If so, a
        /// worker may send even a POST again.
        public var isIdempotent = false
        /// The name of the workers' secret with which the request is signed as a webhook, by Standard Webhooks.
        public var webhook: String?

        /// A request without any of these fields.
        public init() {}

        /// The maximum value of `maxResponse`, in bytes.
        package static let maxResponse = 1 << 20

        /// Whether a response with this status is a success.
        package func expects(_ status: Int) -> Bool {
            expect.isEmpty ? 200...299 ~= status : expect.contains { $0.contains(status) }
        }
    }
}
