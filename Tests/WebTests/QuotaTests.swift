import Glibc
import HaulHTTPServer
import HaulTestSupport
import Testing

@testable import HaulWeb

@Suite struct QuotaTests {
    private func caller(_ name: String?, _ role: Role = .viewer, from address: String = "10.0.0.1") -> Caller {
        Caller(visitor: Visitor(name: name, role: role), client: ClientAddress(address)!)
    }

    @Test("a quota limits each account and all viewers together, and is free again when the holds end")
    func quota() {
        let quota = Quota<String>(maxEach: 2, maxViewers: 3)
        var holds: [Quota<String>.Hold?] = []
        func take(_ thing: String, _ caller: Caller) -> Bool {
            let hold = quota.hold(thing, for: caller)
            holds.append(hold)
            return hold != nil
        }
        #expect(take("a", caller("v")) && take("b", caller("v")) && take("a", caller("v")))
        #expect(!take("c", caller("v")))
        #expect(take("c", caller("w")) && !take("d", caller("w")), "viewers together")
        #expect(take("c", caller("o", .operator)) && take("d", caller("o", .operator)))
        #expect(take("a", caller(nil, .operator)) && take("b", caller(nil, .operator)))
        #expect(!take("c", caller(nil, .operator)) && !take("c", caller(nil, .operator, from: "10.0.0.2")), "a network")
        #expect(take("c", caller(nil, .operator, from: "10.0.1.1")))
        holds = []
        #expect(take("c", caller("v")) && take("d", caller("v")) && take("e", caller("w")))
    }

    @Test("a user and a token of one name with two roles do not change what other viewers may hold")
    func twoRoles() {
        for roles in [[Role.viewer, .operator], [.operator, .viewer]] {
            let quota = Quota<String>(maxEach: 2, maxViewers: 1)
            for _ in 0..<3 {
                var holds = roles.map { quota.hold("a", for: caller("ci", $0)) }
                #expect(holds.allSatisfy { $0 != nil })
                // The first one leaves first.
                while !holds.isEmpty { holds.removeFirst() }
            }
            let hold = quota.hold("a", for: caller("v"))
            #expect(hold != nil && quota.hold("a", for: caller("w")) == nil)
        }
    }

    @Test("the events that a client does not read are bounded in number and in bytes", arguments: [10, 100_000])
    func events(length: Int) {
        let buffer = ListenerBuffer()
        let event = String(repeating: "a", count: length)
        for _ in 0..<3000 { buffer.post(event) }
        buffer.post("last")
        let content = buffer.take()
        #expect(content.items.first == .dropped && content.events.last == "last" && content.events.count > 1)
        #expect(content.events.count <= 2000 && content.events.reduce(0) { $0 + $1.utf8.count } <= 4 << 20)
        #expect(buffer.take().events.isEmpty && buffer.take().bytes == 0)
    }

    @Test("a viewer cannot take all streams, feeds and searches")
    func streams() async throws {
        let hash = PasswordHash(password: "p", cost: 4).text
        let accounts = try Accounts("v viewer \(hash)\no operator \(hash)")
        let fixture = try await WebFixture {
            $0.accounts = accounts
            $0.limits.streams = 8
        }
        let viewer = [(name: "authorization", value: "Basic djpw")]
        let operating = [(name: "authorization", value: "Basic bzpw")]
        func open(_ target: String, _ fields: [(name: String, value: String)]) async -> (HTTPServer.Decision, Int) {
            let parts = target.split(separator: "?").map(String.init)
            let decision = await fixture.web.decide(
                ServerRequest(
                    method: "GET", path: parts[0], query: parts.count > 1 ? parts[1] : "",
                    fields: fields + [("host", "localhost")]))
            guard case .respond(let response) = decision else { return (decision, 0) }
            return (decision, response.status)
        }
        var held: [HTTPServer.Decision] = []
        for _ in 0..<2 {
            let (decision, status) = await open("/api/live?watch=queues/default", viewer)
            #expect(status == 200)
            held.append(decision)
        }
        #expect(await open("/api/live?watch=queues/default", viewer).1 == 429)
        #expect(await open("/api/queues/default/events", viewer).1 == 429)
        #expect(await open("/api/live?watch=queues/default", operating).1 == 200)
        held = []
        #expect(await open("/api/live?watch=queues/default", viewer).1 == 200)
    }

    @Test("an account may have two searches at once, and others search meanwhile")
    func calls() async throws {
        let fixture = try await WebFixture()
        // While Redis is stopped, no search has its answer.
        fixture.server.signal(SIGSTOP)
        let statuses = Shared<[Int]>([])
        let targets = ["?q=a", "?host=b", "?worker=c", "/unseen?line=true", "?batch=e"]
        let searches = targets.map { target in
            Task {
                let status = await fixture.get(WebFixture.jobs + target).status
                statuses.change { $0.append(status) }
            }
        }
        try await eventually("the refusals") { statuses.value == [429, 429, 429] }
        let other = Task { await fixture.send("GET", WebFixture.jobs + "?q=f", from: "10.1.2.3") }
        let list = Task { await fixture.get(WebFixture.jobs + "?state=queued") }
        fixture.server.signal(SIGCONT)
        for search in searches { await search.value }
        #expect(await other.value.status == 200)
        #expect(await list.value.status == 200)
        #expect(!statuses.value.dropFirst(3).contains(429))
        #expect(await fixture.get(WebFixture.jobs + "?q=g").status == 200)
    }

    @Test("the different searches that a viewer watches are limited, but one search may be in many streams")
    func searches() async throws {
        let fixture = try await WebFixture { $0.limits.streams = 80 }
        func open(_ searches: Range<Int>) async -> (HTTPServer.Decision, Int) {
            let watches = searches.map { "watch=queues/default/jobs%3Fstate%3Drunning%26q%3D\($0)" }
            let decision = await fixture.web.decide(
                ServerRequest(
                    method: "GET", path: "/api/live", query: watches.joined(separator: "&"),
                    fields: [("host", "localhost")]))
            guard case .respond(let response) = decision else { return (decision, 0) }
            return (decision, response.status)
        }
        var held: [HTTPServer.Decision] = []
        for searches in [0..<6, 6..<12, 0..<6, 3..<9, 12..<16] {
            let (decision, status) = await open(searches)
            #expect(status == 200)
            held.append(decision)
        }
        #expect(await open(15..<17).1 == 429)
        held.removeLast()
        #expect(await open(15..<17).1 == 200)
    }
}
