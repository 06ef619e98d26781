import HaulBus
import HaulTestSupport
import Synchronization
import Testing

@testable import HaulWorker

/// Slots that become free at the same time.
@Suite struct ClaimerTests {
    /// Replies to calls in this order, and records how many jobs each call claims.
    private final class Server: Sendable {
        let counts = Mutex<[Int]>([])
        let inProgress = Mutex((now: 0, max: 0))
        private let reply: @Sendable (_ call: Int, _ count: Int) -> [ClaimReply]?

        init(_ reply: @escaping @Sendable (_ call: Int, _ count: Int) -> [ClaimReply]?) { self.reply = reply }

        /// - Parameter hasAllAsked: Returns once all slots have asked, at the first call.
        func claim(_ count: Int, _ hasAllAsked: () async -> Void) async -> [ClaimReply]? {
            inProgress.withLock { $0 = ($0.now + 1, max($0.max, $0.now + 1)) }
            await hasAllAsked()
            inProgress.withLock { $0.now -= 1 }
            let call = counts.withLock { counts in
                counts.append(count)
                return counts.count
            }
            return reply(call, count)
        }
    }

    private func ask(_ slots: Int, _ server: Server) async -> [ClaimReply?] {
        let claimer = Claimer()
        return await withTaskGroup(of: ClaimReply?.self) { group in
            for _ in 0..<slots {
                group.addTask {
                    await claimer.next { count in
                        await server.claim(count) {
                            guard server.counts.withLock(\.isEmpty) else { return }
                            try? await eventually("all slots to ask") { claimer.waitingCount == slots }
                        }
                    }
                }
            }
            return await group.reduce(into: []) { $0.append($1) }
        }
    }

    @Test("an empty queue is asked by few calls, one after the other") func empty() async {
        let server = Server { _, _ in [.empty()] }
        let replies = await ask(100, server)
        #expect(replies.count == 100 && replies.allSatisfy { $0?.isEmpty == true })
        #expect(server.counts.withLock { $0.count } <= 2)
        #expect(server.inProgress.withLock { $0.max } == 1)
    }

    @Test("a call claims for a limited number of slots, and goes on for them after `more`") func more() async {
        let server = Server { call, _ in call < 5 ? [.more] : [.full] }
        let replies = await ask(100, server)
        #expect(replies.count == 100)
        for reply in replies { if case .full? = reply {} else { Issue.record("\(String(describing: reply))") } }
        let counts = server.counts.withLock { $0 }
        #expect(counts.count == 5 && counts.max() == Claimer.maxClaims, "\(counts)")
    }

    @Test("a failure is the reply to all slots that have asked before it") func failed() async {
        let server = Server { _, _ in nil }
        let replies = await ask(100, server)
        #expect(replies.count == 100 && replies.allSatisfy { $0 == nil })
        #expect(server.counts.withLock { $0.count } <= 2)
    }
}
