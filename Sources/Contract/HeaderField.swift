/// One line of a message's head (RFC 9110 section 5): its name and its value, as they are sent.
public struct HeaderField: Sendable, Equatable {
    /// As it is sent; names are equal in either case.
    public var name: String
    /// As it is sent.
    public var value: String

    /// A field as it is to be sent.
    public init(_ name: String, _ value: String) { (self.name, self.value) = (name, value) }
}
