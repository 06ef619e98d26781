import HaulHTTPServer
import HaulTestSupport
import Testing

@testable import HaulWeb

@Suite struct SignInQueueTests {
    private func attempt(_ name: String, isKnown: Bool = true, from address: String) -> SignInQueue.Attempt {
        SignInQueue.Attempt(name: name, isKnown: isKnown, network: ClientAddress(address)!.network)
    }

    /// Keeps `count` guesses waiting, each of which comes again as soon as it was refused, until the task is cancelled.
    private func guess(_ count: Int, _ attempt: SignInQueue.Attempt, in queue: SignInQueue) -> (
        Task<Void, Never>, Shared<Int>
    ) {
        let checks = Shared(0)
        let task = Task {
            await withTaskGroup(of: Void.self) { group in
                for _ in 0..<count {
                    group.addTask {
                        while !Task.isCancelled {
                            let outcome = await queue.run(attempt) {
                                checks.change { $0 += 1 }
                                return false
                            }
                            if outcome == nil { try? await Task.sleep(for: .milliseconds(5)) }
                        }
                    }
                }
            }
        }
        return (task, checks)
    }

    @Test(
        "a password is checked soon beside hundreds of guesses, whoever they guess and wherever they come from",
        arguments: [
            ("victor", true, "10.0.0.1"), ("olga", true, "10.0.0.1"), ("nobody", false, "10.0.0.1"),
            ("victor", true, "192.0.2.1"), ("nobody", false, "192.0.2.1"),
        ])
    func guessesDelayNobody(name: String, isKnown: Bool, address: String) async throws {
        let queue = SignInQueue()
        let (guesses, checks) = guess(
            name == "victor" && address == "10.0.0.1" ? 24 : 300, attempt(name, isKnown: isKnown, from: address),
            in: queue)
        defer { guesses.cancel() }
        try await eventually("the guesses to be slowed down") { checks.value >= 5 }
        let before = checks.value
        #expect(await queue.run(attempt("victor", from: "10.0.0.1")) { true } == true)
        #expect(checks.value - before <= 8, "\(checks.value - before) guesses came first")
    }

    @Test("guesses of one network are slowed down, and another network's are not")
    func slowdown() async throws {
        let queue = SignInQueue(maxWait: .milliseconds(400))
        // The pauses grow until they are longer than an attempt waits.
        var checks = 0
        while checks < 20, await queue.run(attempt("olga", from: "10.0.0.\(checks + 1)"), { false }) != nil {
            checks += 1
        }
        #expect((3..<20).contains(checks), "\(checks) guesses were checked")
        #expect(await queue.run(attempt("olga", from: "10.0.1.7")) { true } == true)
    }

    @Test("an attempt whose client is gone costs no check")
    func goneClients() async throws {
        let (queue, checks) = (SignInQueue(), Shared(0))
        let task = Task {
            withUnsafeCurrentTask { $0?.cancel() }
            return await queue.run(attempt("olga", from: "10.0.0.9")) {
                checks.change { $0 += 1 }
                return true
            }
        }
        #expect(await task.value == nil && checks.value == 0)
    }

    @Test("addresses with the same 24 bits of IPv4, or 64 of IPv6, count as one client") func networks() {
        func network(_ text: String) -> ClientNetwork { ClientAddress(text)!.network }
        #expect(network("10.1.2.3") == network("10.1.2.200") && network("10.1.2.3") != network("10.1.3.3"))
        #expect(
            network("2001:db8::1") == network("2001:db8::ffff:1") && network("2001:db8::") != network("2001:db8:0:1::"))
        #expect(network("::ffff:10.1.2.3") == network("10.1.2.9") && ClientAddress.unixSocket.network != network("::"))
        #expect("\(ClientAddress("::ffff:10.1.2.3")!) \(ClientAddress.unixSocket)" == "10.1.2.3 unix")
    }
}
