/// A header field of an HTTP message (RFC 9110 section 5).
public struct HeaderField: Sendable, Equatable {
    /// The name as it is sent. HTTP compares names without regard to case, but `==` does not.
    public var name: String
    /// The value as it is sent.
    public var value: String

    /// A field with this name and value.
    public init(_ name: String, _ value: String) { (self.name, self.value) = (name, value) }
}
