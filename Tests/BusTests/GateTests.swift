import Bus
import Contract
import Redis
import TestSupport
import Testing

@Suite struct GateTests {
    @Test("a raw element that is no job is rejected with the field's name, and the queue goes on") func gate()
        async throws
    {
        let f = try await QueueFixture()
        for vector in InvalidElements.all {
            try await f.push(vector.element)
            #expect(try await f.claim() == nil, "\(vector)")
            let rejected = try #require(try await f.queue.rejected(limit: 1).first)
            let reason = try #require(try JSON(rejected)["reason"]?.string)
            #expect(reason.hasPrefix((vector.field ?? "element") + ":"), "\(vector): \(reason)")
        }
        try await f.push(#"{"url":"http://h/a"}"#)
        #expect(try await f.claim() != nil)
        try await f.expectOrder()
    }

    @Test("an invalid push changes nothing of a known job") func known() async throws {
        let f = try await QueueFixture()
        try await f.push(#"{"url":"http://h/a","id":"x","delay":1000}"#)
        #expect(try await f.claim() == nil)
        let before = try await f.queue.job("x")?.fields
        try await f.push(#"{"url":"ftp://h/a","id":"x"}"#)
        #expect(try await f.claim() == nil)
        #expect(try await f.queue.job("x")?.fields == before)
        try await f.expectOrder()
    }

    @Test("the id is the same, whoever works it out") func ids() async throws {
        let f = try await QueueFixture()
        for text in [
            #"{"url":"http://h/a"}"#, #"{"url":"http://h/a","path":"b"}"#, #"{"url":"http://h/a","headers":{"A":"b"}}"#,
        ] {
            let element = try Element(try JSON(text))
            try await f.queue.push([element])
            let claim = try #require(try await f.claim())
            #expect(claim.run.id == element.id)
            try await f.settle(claim, QueueFixture.done)
        }
        try await f.expectOrder()
    }
}
