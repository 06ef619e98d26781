import HaulClient
import HaulTestSupport
import Testing

@Suite struct PushingTests {
    @Test("a job's id is known before the push, and the queue lists the same id") func ids() async throws {
        let server = try await RedisServer()
        let queue = try HaulQueue(redis: server.url)
        var jobs = [Job("http://h/a"), Job("http://h/a", id: "own"), Job(urls: ["http://h/a", "http://g/a"])]
        jobs[0].path = "b/"
        let handles = try await queue.push(jobs)
        #expect(handles.map(\.id) == (try jobs.map { try $0.resolvedID }))
        #expect(handles[1].id == "own")
        // `printf 'http://h/a\nb/' | sha1sum`
        #expect(handles[0].id == "e28dc3fc240e0f21")
        #expect(try await queue.ids(in: .queued) == handles.map(\.id))
        #expect(try await collect(queue.list(.queued)).isEmpty)
        await queue.close()
    }

    @Test("many jobs are pushed with few commands and one common `at`, and an `at` of a job is kept")
    func many() async throws {
        let server = try await RedisServer()
        let queue = try HaulQueue(redis: server.url)
        try await queue.push(Job("http://h/first"))
        let before = try await server.statistic("total_commands_processed")
        var jobs = (0..<1200).map { Job("http://h/\($0)") }
        jobs[7].at = 1_700_000_000_007
        let handles = try await queue.push(jobs)
        // TIME, LPUSH three times, and the query for the statistic.
        #expect(try await server.statistic("total_commands_processed") - before == 5)
        #expect(handles.count == 1200 && handles[7].pushedAt == 1_700_000_000_007)
        #expect(Set(handles.map(\.pushedAt)).count == 2)
        #expect(try await server.cli("LLEN", "haul:{default}:jobs") == "1201")
        #expect(try await server.cli("LINDEX", "haul:{default}:jobs", "-2").contains("http://h/0"))
        let urgent = try await queue.push([Job("http://h/x"), Job("http://h/y")], to: .front)
        #expect(try await queue.ids(in: .queued, limit: 2) == urgent.map(\.id))
        await queue.close()
    }

    @Test("invalid jobs, queue names and URLs are refused before anything is sent") func mistakes() async throws {
        let server = try await RedisServer()
        let queue = try HaulQueue(redis: server.url)
        var bodiless = Job("http://h/")
        bodiless.body = "x"
        var odd = Job("http://h/")
        odd.meta = "{"
        var long = Job("http://h/")
        long.delay = .seconds(1 << 40)
        for (job, field) in [
            (Job("ftp://h/"), "url"), (Job(urls: []), "url"), (Job("http://h/", id: "a b"), "id"), (bodiless, "id"),
            (odd, "meta"), (long, "delay"),
        ] {
            await #expect { try await queue.push([Job("http://h/"), job]) } throws: { error in
                let error = error as? HaulError
                return error?.code == .invalidJob && error?.field == field && error?.message.hasPrefix(field) == true
            }
        }
        #expect(try await server.cli("KEYS", "*") == "")
        #expect { try HaulQueue(redis: "http://h") } throws: { ($0 as? HaulError)?.code == .invalidURL }
        #expect { try HaulQueue(redis: server.url, queue: "{x}") } throws: {
            ($0 as? HaulError)?.code == .invalidQueueName
        }
        await queue.close()
        await #expect { try await queue.push(Job("http://h/")) } throws: { ($0 as? HaulError)?.code == .closed }
        let absent = try HaulQueue(redis: "unix:///no/such/socket")
        await #expect { try await absent.push(Job("http://h/")) } throws: { ($0 as? HaulError)?.code == .unreachable }
        let locked = try await RedisServer(["--requirepass", "secret"])
        await #expect { try await HaulQueue(redis: locked.url).push(Job("http://h/")) } throws: {
            ($0 as? HaulError)?.code == .refused
        }
    }

    @Test("a durable push that too few replicas confirm throws, but its job is queued")
    func durable() async throws {
        let server = try await RedisServer()
        let queue = try HaulQueue(redis: server.url)
        await #expect { try await queue.push(Job("http://h/a"), .replicas(1, within: .milliseconds(50))) } throws: {
            ($0 as? HaulError)?.code == .notReplicated
        }
        #expect(try await server.cli("LLEN", "haul:{default}:jobs") == "1")
        let port = FreePort.next()
        let primary = try await RedisServer(["--port", "\(port)", "--repl-diskless-sync-delay", "0"])
        let replica = try await RedisServer(["--replicaof", "127.0.0.1", "\(port)"])
        try await eventually("the replica to follow") {
            try await replica.cli("INFO", "replication").contains("master_link_status:up")
        }
        let other = try HaulQueue(redis: primary.url)
        let handle = try await other.push(Job("http://h/b"), .replicas(1, within: .seconds(10)))
        #expect(try await replica.cli("LLEN", "haul:{default}:jobs") == "1")
        #expect(handle.pushedAt != nil)
        await other.close()
        await queue.close()
    }
}
