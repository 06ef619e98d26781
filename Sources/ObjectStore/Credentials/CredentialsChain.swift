import Glibc
import HaulContract
import HaulExecutors
import HaulHTTP

/// The credentials of a store. They come from the first location that has any, and are fetched again from that location
/// before they expire. Concurrent requests share one fetch.
actor CredentialsChain {
    private let fetch: CredentialsFetch
    private let locations: [CredentialsLocation]
    private let now: @Sendable () -> Int64
    private var location: CredentialsLocation?
    private var current: Credentials?
    private var pending: Task<Credentials?, Never>?
    /// When the last fetch failed. As long as the current credentials are usable, the next fetch waits for `pause`.
    private var failed: ContinuousClock.Instant?

    private static let pause = Duration.seconds(5)

    /// - Parameters:
    ///   - locations: Where to look, in this order.
    ///   - now: The time in seconds since 1970.
    init(
        engine: TransferEngine, locations: [CredentialsLocation],
        now: @escaping @Sendable () -> Int64 = { UnixTime.seconds }
    ) {
        fetch = CredentialsFetch(engine: engine, files: BlockingPool(name: "credentials", limit: 1))
        (self.locations, self.now) = (locations, now)
    }

    /// The location where the credentials were found, in words for the operator.
    var found: String? { location?.label }

    /// - Throws: `StoreError` with the code `NoCredentials` if no location has any. It is transient if there were some, or
    ///   if a service is to have them: one that does not respond now will again.
    func credentials() async throws(StoreError) -> Credentials {
        if let current, current.areFresh(at: now()) { return current }
        let isUsable = current?.areUsable(at: now()) ?? false
        if isUsable, let current, let failed, ContinuousClock.now - failed < Self.pause { return current }
        if let fetched = await refresh() { return fetched }
        if let current, current.areUsable(at: now()) { return current }
        if let location {
            throw StoreError(
                status: 0, code: "NoCredentials",
                message: "the credentials are no longer valid, and \(location.label) has no others now",
                kind: .transient)
        }
        let tried = locations.map(\.label).joined(separator: ", ")
        let mayRecover = locations.contains(where: \.isChosenService)
        throw StoreError(
            status: mayRecover ? 0 : 403, code: "NoCredentials",
            message: "no credentials were found (looked at: \(tried))", kind: mayRecover ? .transient : .denied)
    }

    /// Forgets credentials that the server calls expired, unless they have been replaced already.
    func drop(_ credentials: Credentials) { if current == credentials { current = nil } }

    private func refresh() async -> Credentials? {
        if let pending { return await pending.value }
        let (fetch, locations) = (fetch, location.map { [$0] } ?? locations)
        let task = Task { () -> (Credentials, CredentialsLocation)? in
            for location in locations {
                if let found = await fetch.credentials(from: location) { return (found, location) }
            }
            return nil
        }
        let result = Task { await task.value?.0 }
        pending = result
        let found = await task.value
        pending = nil
        if let found { (current, location, failed) = (found.0, found.1, nil) } else { failed = .now }
        return found?.0
    }
}
