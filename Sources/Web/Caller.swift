import HaulHTTPServer

/// The visitor who sends a request, and where it comes from.
struct Caller: Sendable, Equatable {
    /// Whose limits count: the user's or, without a sign-in, those of the network.
    enum Account: Hashable { case user(String), network(ClientNetwork) }

    let visitor: Visitor
    let client: ClientAddress

    var name: String? { visitor.name }
    var role: Role { visitor.role }

    var account: Account { visitor.name.map(Account.user) ?? .network(client.network) }

    /// The user, or the address if there is no sign-in.
    var description: String { visitor.name ?? "\(client)" }
}
