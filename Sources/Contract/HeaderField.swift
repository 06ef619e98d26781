/// One line of a message's head (RFC 9110 section 5): its name and its value, as they are sent.
public struct HeaderField: Sendable, Equatable {
    public var name: String
    public var value: String

    public init(_ name: String, _ value: String) { (self.name, self.value) = (name, value) }
}
