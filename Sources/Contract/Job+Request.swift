extension Job {
    /// A name and a text: of a query or of a form.
    public struct Item: Sendable, Equatable {
        /// As it is, not encoded.
        public var name: String
        /// As it is, not encoded.
        public var value: String
        /// Both are encoded when they are sent.
        public init(_ name: String, _ value: String) { (self.name, self.value) = (name, value) }
    }

    /// What a job of the kind ``Kind/request`` or ``Kind/upload`` asks of a server, beside its method, headers and ``Job/body``.
    public struct Request: Sendable, Equatable {
        /// Added to the URL's query.
        public var query: [Item] = []
        /// The body as JSON text: never re-encoded.
        public var json: String?
        /// The body as a form.
        public var form: [Item] = []
        /// The body in base 64, for bytes that are no text.
        public var bodyBase64: String?
        /// Statuses that count as success; none: 200 to 299.
        public var expect: [ClosedRange<Int>] = []
        /// A longer response makes the job fail: bytes, 1 MiB at most.
        public var maxResponse: Int?
        /// The server knows a repetition by its Idempotency-Key, the job's id: a POST may be sent again.
        public var isIdempotent = false

        /// Asks for nothing of its own.
        public init() {}

        /// The longest response that is kept.
        package static let largestResponse = 1 << 20

        /// Whether a response of this status is a success.
        package func expects(_ status: Int) -> Bool {
            expect.isEmpty ? 200...299 ~= status : expect.contains { $0.contains(status) }
        }
    }
}
