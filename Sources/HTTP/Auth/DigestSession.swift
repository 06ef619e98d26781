import Synchronization

/// The nonces that the servers of one download have issued. Later requests need no new challenge.
package final class DigestSession: Sendable {
    private struct Nonce {
        let challenge: DigestChallenge
        let own = String(UInt64.random(in: 0...(.max)), radix: 16)
        var count = 0
    }

    private let nonces = Mutex<[String: Nonce]>([:])

    package init() {}

    /// Stores a challenge. It replaces the earlier one of the same origin.
    package func record(_ challenge: DigestChallenge, from url: WebURL) {
        nonces.withLock { $0[url.origin] = Nonce(challenge: challenge) }
    }

    /// The value of Authorization for a request; nil if its server has sent no challenge.
    package func authorization(_ login: WebURL.Login, method: String, for url: WebURL) -> String? {
        nonces.withLock { nonces in
            guard var nonce = nonces[url.origin] else { return nil }
            nonce.count += 1
            nonces[url.origin] = nonce
            return nonce.challenge.authorization(
                login, method: method, target: url.target, count: nonce.count, own: nonce.own)
        }
    }
}
