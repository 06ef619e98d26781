import HaulClient
import Testing

/// The code of a service that imports HaulClient and nothing else of Haul. This file has no other import of ours, so
/// that it compiles is most of the test.
@Suite struct ImportTests {
    private struct Order: Codable, Equatable { var customer: Int }

    private func name(_ update: JobUpdate) -> String {
        switch update {
        case .event(let event): event.kind.rawValue
        case .status(let status): status.state.rawValue
        }
    }

    @Test("every type that a service needs can be named, and so can its members") func names() throws {
        var job: Job = Job("https://example.org/a")
        job.ifExists = Job.IfExists.overwrite
        job.checksum = Job.Checksum(algorithm: Job.Checksum.Algorithm.md5, digest: String(repeating: "0", count: 32))
        job.headers = [HeaderField("Accept", "*/*")]
        job.deadline = Duration.seconds(5)
        try job.setMeta(Order(customer: 7))
        let error: ErrorCode = .http(404)
        let state: JobState = .failed
        let event: Event? = Event(
            Array(#"{"v":1,"event":"failed","id":"x","queue":"q","epoch":2,"seq":3,"at":4,"error":"http_404"}"#.utf8))
        let kind: Event.Kind? = event?.kind
        let position: EventPosition? = event?.position
        #expect(kind == .failed && event?.error == error && event?.finalState == state && error.httpStatus == 404)
        #expect(position == EventPosition(epoch: 2, sequence: 3))
        #expect(name(.event(event!)) == "failed")
        let meta: JSON = try JSON(job.meta ?? "")
        #expect(meta["customer"]?.integer == 7)
        #expect(try meta.decode(Order.self) == Order(customer: 7))
        #expect(Durability.replicas(2) != Durability.acknowledged)
        let code: HaulError.Code = .invalidJob
        #expect(throws: HaulError.self) { try Job("ftp://h/").resolvedID }
        do { _ = try Job("ftp://h/").resolvedID } catch {
            #expect(error.code == code && error.field == "url" && error.message.hasPrefix("url: "))
        }
        // The other tests of this target use the members of these types.
        _ =
            [
                JobHandle.self, JobStatus.self, JobResult.self, QueueStatistics.self, WorkerStatus.self, JobEvents.self,
                QueueEvents.self, JobEvents.AsyncIterator.self, HaulQueue.self, Job.Invalid.self, JSON.Member.self,
                JSON.SyntaxError.self,
            ] as [Any.Type]
    }
}
