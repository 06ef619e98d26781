import HaulBus
import HaulContract
import Testing

@testable import HaulWeb

@Suite("Schedules in the API") struct ScheduleAPITests {
    private static let path = "/api/queues/default/schedules"

    @Test("a schedule is added, listed without secrets, paused, run and removed") func life() async throws {
        let fixture = try await WebFixture()
        let definition =
            #"{"cron":"0 3 * * *","zone":"Europe/Berlin","job":{"url":"http://u:secret@h/f?key=secret","headers":{"X":"secret"}}}"#
        let added = await fixture.ask("POST", Self.path, #"{"action":"add","name":"s","schedule":\#(definition)}"#)
        #expect(added.status == 202 && added.json?["next"]?.integer != nil, "\(added)")
        func act(_ action: String) async throws -> Answer {
            let answer = await fixture.ask("POST", Self.path, #"{"action":"\#(action)","name":"s"}"#)
            let reply = Tick(fixture.worker, runs: [])
            var tick = reply
            try await fixture.queue.perform(&tick)
            _ = try await fixture.queue.push(tick.reply.schedules, as: fixture.worker)
            return Answer(status: answer.status, id: answer.json?["id"]?.string)
        }
        #expect(try await act("pause") == Answer(status: 202, id: nil))
        var listed = await fixture.get(Self.path)
        #expect(!listed.text.contains("secret"), "\(listed.text)")
        #expect(listed.json?["schedules"]?.array?.first?["paused"]?.bool == true)
        #expect(try await act("resume") == Answer(status: 202, id: nil))
        #expect(try await act("run") == Answer(status: 202, id: "s"))
        listed = await fixture.get(Self.path)
        let schedule = try #require(listed.json?["schedules"]?.array?.first)
        #expect(schedule["last_id"]?.string == "s" && schedule["pushed"]?.integer == 1)
        let known = Set(Shapes.schedule.map(\.name))
        #expect(schedule.members?.allSatisfy { known.contains($0.name) } == true, "\(listed.text)")
        #expect(try await act("remove") == Answer(status: 202, id: nil))
        #expect(await fixture.get(Self.path).text == #"{"schedules":[]}"#)
        #expect(try await act("run").status == 404)
    }

    private struct Answer: Equatable {
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
        let answer = await fixture.ask("POST", Self.path, body)
        #expect(answer.status == 422 && answer.text.contains(reason), "\(answer)")
        #expect(await fixture.get(Self.path).text == #"{"schedules":[]}"#)
    }
}
