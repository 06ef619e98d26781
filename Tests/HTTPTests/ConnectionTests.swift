import Glibc
import HaulContract
import HaulExecutors
import HaulTestSupport
import Testing

@testable import HaulFileStore
@testable import HaulHTTP

@Suite("Connections")
struct ConnectionTests {
    private let engine = localEngine()

    @Test("connections are reused, after complete and after discarded bodies")
    func reuse() async throws {
        let server = RawServer { connection in
            while connection.readRequest() != nil {
                connection.send("HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n")
                connection.send(testBytes(5000))
            }
        }
        defer { server.stop() }
        for index in 0..<20 {
            let transfer = try await engine.start(localRequest(server.url))
            #expect(transfer.head.isReused == (index > 0))
            #expect(transfer.head.remoteAddress == "127.0.0.1")
            if index % 2 == 0 { await transfer.discard() } else { _ = try await transfer.collect(limit: 5000) }
        }
        #expect(server.connections == 1)
    }

    @Test("a long body is not read to its end just to keep the connection")
    func discardLong() async throws {
        let server = RawServer { connection in
            _ = connection.readRequest()
            connection.send("HTTP/1.1 200 OK\r\nContent-Length: 500000000\r\n\r\n")
            connection.waitForClose()
        }
        defer { server.stop() }
        await (try engine.start(localRequest(server.url))).discard()
        #expect(await engine.count == 0)
    }

    @Test("a refused connection is a connect error that names the address")
    func refused() async throws {
        let (descriptor, port) = try LoopbackSocket.bind()
        defer { close(descriptor) }
        let error = await thrown { () async throws(TransferError) in
            try await engine.start(localRequest("http://127.0.0.1:\(port)/"))
        }
        #expect(error?.code == .connect)
        #expect(error?.message == "127.0.0.1:\(port) cannot be reached: Connection refused")
    }

    @Test("a connection that is never accepted is a connect error after the connect timeout")
    func neverAccepted() async throws {
        let (descriptor, port) = try LoopbackSocket.bind()
        listen(descriptor, 0)
        defer { close(descriptor) }
        // The queue of a listener that never accepts is full after a few connections. Later ones get no response.
        let fillers = try await withThrowingTaskGroup(of: TransferError?.self) { group in
            for _ in 0..<4 {
                group.addTask {
                    var request = localRequest("http://127.0.0.1:\(port)/")
                    request.connectTimeout = .milliseconds(500)
                    request.stallTimeout = .milliseconds(500)
                    return await thrown { () async throws(TransferError) in try await engine.start(request) }
                }
            }
            return try await group.reduce(into: []) { $0.append($1) }
        }
        #expect(fillers.allSatisfy { $0?.code == .connect || $0?.code == .stalled })
        #expect(fillers.contains { $0?.code == .connect })
    }

    @Test("a name that cannot be resolved is a dns error")
    func unresolvable() async throws {
        let label = String(repeating: "x", count: 70)
        let error = await thrown { () async throws(TransferError) in
            try await engine.start(localRequest("http://\(label)/"))
        }
        #expect(error?.code == .dns)
    }

    @Test(
        "schemes other than http and https are refused",
        arguments: ["ftp://127.0.0.1/", "file:///etc/passwd", "http://"])
    func schemes(_ url: String) async throws {
        let error = await thrown { () async throws(TransferError) in try await engine.start(localRequest(url)) }
        #expect(error?.code == .badJob)
    }

    @Test("a lack of descriptors is a local limit, and not the host's fault", arguments: ["127.0.0.1", "host.invalid"])
    func outOfDescriptors(_ host: String) async throws {
        // In a process of its own, since the test uses up all descriptors.
        await #expect(processExitsWith: .success) { [host] in
            let engine = localEngine()
            await (try? engine.start(localRequest("http://127.0.0.1:1/")))?.discard()
            while dup(0) >= 0 {}
            let error = await thrown { () async throws(TransferError) in
                try await engine.start(localRequest("http://\(host):1/"))
            }
            guard error?.code == .localLimit else { fatalError("\(String(describing: error))") }
        }
    }

    @Test("cancelling ends a transfer at once, before the head and in the body")
    func cancel() async throws {
        let isAsked = Shared(false)
        let server = RawServer { connection in
            guard let head = connection.readRequest() else { return }
            if head.contains("/body") { connection.send("HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nabc") }
            isAsked.value = true
            connection.waitForClose()
        }
        defer { server.stop() }
        let started = Shared<Transfer?>(nil)
        for path in ["head", "body"] {
            isAsked.value = false
            let file = OutputFile(descriptor: temporaryDescriptor(), diskWriter: DiskWriter(blocks: 2))
            let task = Task { [engine] in
                await thrown { () async throws(TransferError) in
                    let transfer = try await engine.start(localRequest("http://127.0.0.1:\(server.port)/\(path)"))
                    started.value = transfer
                    return try await transfer.receive(into: file)
                }
            }
            try await eventually {
                isAsked.value && (path == "head" || started.value?.progress.received == 3)
            }
            let start = ContinuousClock.now
            task.cancel()
            #expect(await task.value == .cancelled)
            // The bound rules out the stall limit of 60 s. Cancelling takes milliseconds, and more on a loaded machine.
            #expect(ContinuousClock.now - start < .seconds(30))
            #expect(await engine.count == 0)
        }
    }

    @Test("a task that was cancelled before starts no transfer")
    func cancelledBefore() async throws {
        let server = RawServer { $0.waitForClose() }
        defer { server.stop() }
        let task = Task { [engine] in
            while !Task.isCancelled { await Task.yield() }
            return await thrown { () async throws(TransferError) in
                try await engine.start(localRequest(server.url))
            }
        }
        task.cancel()
        #expect(await task.value == .cancelled)
    }

    @Test("releasing a transfer cancels it")
    func drop() async throws {
        let server = RawServer { connection in
            _ = connection.readRequest()
            connection.send("HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nabc")
            connection.waitForClose()
        }
        defer { server.stop() }
        var transfer: Transfer? = try await engine.start(localRequest(server.url))
        #expect(transfer?.head.status == 200)
        #expect(await engine.count == 1)
        transfer = nil
        try await eventually { await engine.count == 0 }
    }

    @Test("an engine is freed with its last reference")
    func dropEngine() async throws {
        let server = RawServer { connection in
            _ = connection.readRequest()
            connection.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
            connection.waitForClose()
            connection.close()
        }
        defer { server.stop() }
        weak var dropped: TransferEngine?
        do {
            let engine = localEngine()
            dropped = engine
            #expect(try await fetch(engine, localRequest(server.url)) == Array("ok".utf8))
        }
        try await eventually { dropped == nil }
    }

    @Test("a request that gets 421 is repeated once, on a new connection")
    func misdirected() async throws {
        let server = RawServer { connection in
            while connection.readRequest() != nil {
                connection.send("HTTP/1.1 \(connection.number == 1 ? 421 : 200) X\r\nContent-Length: 0\r\n\r\n")
            }
        }
        defer { server.stop() }
        let transfer = try await localEngine().start(localRequest(server.url))
        #expect(transfer.head.status == 200)
        #expect(server.connections == 2)
        let always = RawServer { connection in
            while connection.readRequest() != nil { connection.send("HTTP/1.1 421 X\r\nContent-Length: 0\r\n\r\n") }
        }
        defer { always.stop() }
        #expect(try await localEngine().start(localRequest(always.url)).head.status == 421)
        #expect(always.connections == 2)
    }

    @Test("a request is sent at most twice, however many kept connections are dead")
    func repeated() async throws {
        let requests = Shared(0)
        let (together, mayEnd) = (Shared(0), Latch())
        let server = RawServer { connection in
            guard connection.readRequest() != nil else { return }
            together.change { $0 += 1 }
            mayEnd.wait()
            connection.send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
            // Every later request gets the end of the connection instead of a response.
            guard connection.readRequest() != nil else { return }
            requests.change { $0 += 1 }
            connection.reset()
        }
        defer {
            mayEnd.open()
            server.stop()
        }
        let engine = localEngine()
        let url = server.url
        try await withThrowingTaskGroup(of: Void.self) { group in
            for _ in 0..<6 { group.addTask { _ = try await fetch(engine, localRequest(url)) } }
            try await eventually("six connections") { together.value == 6 }
            mayEnd.open()
            try await group.waitForAll()
        }
        // The seventh connection responds.
        _ = try await fetch(engine, localRequest(url))
        #expect(requests.value == 1)
        #expect(server.connections == 7)
    }
}
