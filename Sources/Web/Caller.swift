import HaulHTTPServer

/// The visitor who sends a request, and where it comes from.
struct Caller: Sendable, Equatable {
    let visitor: Visitor
    let client: ClientAddress

    var name: String? { visitor.name }
    var role: Role { visitor.role }

    /// Whose limits count: the user's, or those of the address if there is no sign-in.
    var account: String { visitor.name ?? "\(client)" }
}
