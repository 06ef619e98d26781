import HaulBus
import HaulContract
import HaulRedis
import Testing

@testable import HaulWeb

@Suite("Schedules in the API") struct ScheduleAPITests {
    private static let path = "/api/queues/default/schedules"

    @Test("a schedule is added, listed without secrets, paused, run and removed") func life() async throws {
        let fixture = try await WebFixture()
        let definition =
            #"{"cron":"0 3 * * *","zone":"Europe/Berlin","job":{"url":"http://u:secret@h/f?key=secret","headers":{"X":"secret"}}}"#
        let added = await fixture.send("POST", Self.path, #"{"action":"add","name":"s","schedule":\#(definition)}"#)
        #expect(added.status == 202 && added.json?["next"]?.integer != nil, "\(added)")
        func act(_ action: String) async throws -> Response {
            let response = await fixture.send("POST", Self.path, #"{"action":"\#(action)","name":"s"}"#)
            let reply = Tick(fixture.worker, runs: [])
            var tick = reply
            try await fixture.queue.perform(&tick)
            _ = try await fixture.queue.push(tick.reply.schedules, as: fixture.worker)
            return Response(status: response.status, id: response.json?["id"]?.string)
        }
        #expect(try await act("pause") == Response(status: 202, id: nil))
        var listed = await fixture.get(Self.path)
        #expect(!listed.text.contains("secret"), "\(listed.text)")
        #expect(listed.json?["schedules"]?.array?.first?["paused"]?.bool == true)
        #expect(try await act("resume") == Response(status: 202, id: nil))
        #expect(try await act("run") == Response(status: 202, id: "s"))
        listed = await fixture.get(Self.path)
        let schedule = try #require(listed.json?["schedules"]?.array?.first)
        #expect(schedule["last_id"]?.string == "s" && schedule["pushed"]?.integer == 1)
        let known = Set(Shapes.schedule.map(\.name))
        #expect(schedule.members?.allSatisfy { known.contains($0.name) } == true, "\(listed.text)")
        #expect(try await act("remove") == Response(status: 202, id: nil))
        #expect(await fixture.get(Self.path).text == #"{"schedules":[]}"#)
        #expect(try await act("run").status == 404)
    }

    @Test("a queue that has all the schedules it may have still replaces one") func full() async throws {
        let fixture = try await WebFixture()
        let pairs = (0..<Schedule.maxCount).flatMap { ["s\($0)", #"{"every":3600,"job":{"url":"http://h/"}}"#] }
        try await fixture.queue.redis.send(Command(arguments: ["HSET", fixture.queue.keys.schedules] + pairs))
        for (name, status) in [("s7", 202), ("new", 422)] {
            let body = #"{"action":"add","name":"\#(name)","schedule":{"every":7200,"job":{"url":"http://h/"}}}"#
            let response = await fixture.send("POST", Self.path, body)
            #expect(response.status == status, "\(name): \(response)")
        }
    }

    private struct Response: Equatable {
        let status: Int
        let id: String?
    }

    @Test(
        "what is not valid is refused with its reason, and nothing is added",
        arguments: [
            (#"{"action":"stop","name":"s"}"#, "action must be"), (#"{"action":"run","name":"a b"}"#, "name must be"),
            (#"{"action":"run","name":"s","schedule":{}}"#, "there is no schedule"),
            (#"{"action":"add","name":"s"}"#, "must be a JSON object"),
            (#"{"action":"add","name":"s","schedule":{"every":5,"job":{"url":"ftp://h/"}}}"#, "job: url"),
            (
                #"{"action":"add","name":"s","schedule":{"every":5,"job":{"url":"http://h/","pth":"x"}}}"#,
                "pth: no such field"
            ),
            (
                #"{"action":"add","name":"s","schedule":{"cron":"0 3 * * *","zone":"Nowhere/X","job":{"url":"http://h/"}}}"#,
                "Nowhere/X is not in"
            ),
        ])
    func refused(_ body: String, _ reason: String) async throws {
        let fixture = try await WebFixture()
        let response = await fixture.send("POST", Self.path, body)
        #expect(response.status == 422 && response.text.contains(reason), "\(response)")
        #expect(await fixture.get(Self.path).text == #"{"schedules":[]}"#)
    }
}
