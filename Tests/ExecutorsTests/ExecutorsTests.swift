import Glibc
import HaulExecutors
import HaulTestSupport
import Testing

private actor OnLoop {
    let loop = EventLoop(name: "test")
    nonisolated var unownedExecutor: UnownedSerialExecutor { loop.asUnownedSerialExecutor() }
    var seen: [Int] = []

    isolated deinit { loop.stop() }

    static var currentThread: UInt { UInt(pthread_self()) }
    var thread: UInt { Self.currentThread }

    func record(_ number: Int) { seen.append(number) }

    func schedule() {
        let start = ContinuousClock.now
        for number in [3, 1, 2] {
            _ = loop.schedule(at: start + .milliseconds(number * 10)) { [weak self] in
                self?.assumeIsolated { $0.seen.append(number) }
            }
        }
        let cancelled = loop.schedule(at: start + .milliseconds(15)) { [weak self] in
            self?.assumeIsolated { $0.seen.append(99) }
        }
        loop.cancel(cancelled)
    }

    /// Enqueues three jobs on the loop. The first one adds a handler for the end of its turn.
    func gather() {
        Task {
            record(1)
            loop.atEndOfTurn { [weak self] in
                self?.assumeIsolated { me in
                    Task { me.record(5) }
                    me.record(4)
                }
            }
        }
        for number in 2...3 { Task { record(number) } }
    }

    func watch(_ descriptor: Int32) {
        loop.watch(descriptor, for: .readable) { [weak self] _ in
            self?.assumeIsolated { me in
                var byte: UInt8 = 0
                if read(descriptor, &byte, 1) == 1 { me.seen.append(Int(byte)) } else { me.loop.unwatch(descriptor) }
            }
        }
    }

    func rest(_ descriptor: Int32) { loop.rest(descriptor) }

    func forget(_ descriptor: Int32) { loop.forget(descriptor) }
}

@Suite struct EventLoopTests {
    @Test("all jobs of many tasks run, one at a time") func jobs() async {
        let actor = OnLoop()
        await withTaskGroup(of: Void.self) { group in
            for index in 0..<1000 { group.addTask { await actor.record(index) } }
        }
        #expect(await Set(actor.seen) == Set(0..<1000))
    }

    @Test("a task that prefers a loop stays on the loop's thread, and other tasks leave it")
    func preference() async {
        let actor = OnLoop()
        let here = await actor.thread
        let threads = await withTaskExecutorPreference(actor.loop) {
            var threads = [OnLoop.currentThread]
            await actor.record(1)
            threads.append(OnLoop.currentThread)
            await withTaskGroup(of: UInt.self) { group in
                group.addTask { OnLoop.currentThread }
                for await thread in group { threads.append(thread) }
            }
            await Task.yield()
            return threads + [OnLoop.currentThread]
        }
        #expect(threads == [here, here, here, here])
        await actor.record(2)
        #expect(OnLoop.currentThread != here)
    }

    @Test("timers fire in the order of their deadlines, and cancelled timers never") func timers() async throws {
        let actor = OnLoop()
        await actor.schedule()
        try await eventually { await actor.seen.count == 3 }
        #expect(await actor.seen == [1, 2, 3])
    }

    @Test("a handler for the end of a turn runs after the turn's jobs, and before new jobs")
    func endOfTurn() async throws {
        let actor = OnLoop()
        await actor.gather()
        try await eventually { await actor.seen.count == 5 }
        #expect(await actor.seen == [1, 2, 3, 4, 5])
    }

    @Test("a descriptor is watched until it is unwatched") func descriptors() async throws {
        let actor = OnLoop()
        var ends: [Int32] = [0, 0]
        #expect(pipe(&ends) == 0)
        await actor.watch(ends[0])
        for byte in [UInt8(7), 8] { _ = withUnsafeBytes(of: byte) { write(ends[1], $0.baseAddress, 1) } }
        try await eventually { await actor.seen == [7, 8] }
        close(ends[1])
        await actor.record(9)
        #expect(await actor.seen.last == 9)
    }

    private func openPipe() -> (input: Int32, output: Int32) {
        var ends: [Int32] = [0, 0]
        #expect(pipe(&ends) == 0)
        return (ends[1], ends[0])
    }

    private func send(_ byte: UInt8, to descriptor: Int32) {
        _ = withUnsafeBytes(of: byte) { write(descriptor, $0.baseAddress, 1) }
    }

    @Test("bytes for a resting descriptor wait until it is watched again") func resting() async throws {
        let actor = OnLoop()
        let (one, other) = (openPipe(), openPipe())
        defer { for end in [one.input, one.output, other.input, other.output] { close(end) } }
        for pipe in [one, other] { await actor.watch(pipe.output) }
        await actor.rest(one.output)
        send(1, to: one.input)
        // When the second of these has been read, the loop has also seen the byte before them.
        for byte in [UInt8(2), 3] {
            send(byte, to: other.input)
            try await eventually { await actor.seen.last == Int(byte) }
        }
        #expect(await actor.seen == [2, 3])
        await actor.watch(one.output)
        try await eventually { await actor.seen == [2, 3, 1] }
        await actor.rest(one.output)
        await actor.watch(one.output)
        send(4, to: one.input)
        try await eventually { await actor.seen == [2, 3, 1, 4] }
    }

    @Test("a new descriptor with the number of a resting one that was closed is watched") func reused() async throws {
        let actor = OnLoop()
        let (one, other) = (openPipe(), openPipe())
        defer { for end in [one.input, one.output, other.input, other.output] { close(end) } }
        await actor.watch(one.output)
        await actor.rest(one.output)
        await actor.forget(one.output)
        // Closes what had the number before.
        dup2(other.output, one.output)
        await actor.watch(one.output)
        send(1, to: other.input)
        try await eventually { await actor.seen == [1] }
    }
}

@Suite struct BlockingPoolTests {
    @Test("a pool never runs more calls at once than its limit") func limit() async {
        let pool = BlockingPool(name: "test", limit: 3)
        let running = Shared(0)
        let most = Shared(0)
        await withTaskGroup(of: Void.self) { group in
            for _ in 0..<60 {
                group.addTask {
                    await pool.run {
                        let now = running.change {
                            $0 += 1; return $0
                        }
                        most.change { $0 = max($0, now) }
                        usleep(1000)
                        running.change { $0 -= 1 }
                    }
                }
            }
        }
        #expect((1...3).contains(most.value))
    }

    @Test(
        "each piece of shared work is done once, and nothing deadlocks when all threads are busy",
        .timeLimit(.minutes(1)))
    func shared() async throws {
        let pool = BlockingPool(name: "test", limit: 2)
        let counts = Shared([Int](repeating: 0, count: 100))
        // Both threads wait for their own 50 pieces, so each thread must be able to do them alone.
        async let first = pool.run {
            pool.runAll(
                (0..<50).map { index in
                    {
                        counts.change { $0[index] += 1 }; return index
                    }
                })
        }
        async let second = pool.run {
            pool.runAll(
                (50..<100).map { index in
                    {
                        counts.change { $0[index] += 1 }; return index
                    }
                })
        }
        #expect(await first + second == Array(0..<100))
        #expect(counts.value.allSatisfy { $0 == 1 })
        #expect(await pool.run { pool.runAll([@Sendable () -> Int]()) } == [])
    }

    @Test("what a finished call held is released although more calls wait") func release() async {
        final class Held: Sendable {
            let gone: Shared<Bool>
            init(_ gone: Shared<Bool>) { self.gone = gone }
            deinit { gone.value = true }
        }
        let pool = BlockingPool(name: "test", limit: 1)
        let gone = Shared(false)
        let wasGone = await withCheckedContinuation { continuation in
            // Submitted from the pool's only thread, so that the last call still waits when the call before it reads
            // `gone`.
            pool.submit {
                pool.submit { [held = Held(gone)] in withExtendedLifetime(held) {} }
                pool.submit { continuation.resume(returning: gone.value) }
                pool.submit {}
            }
        }
        #expect(wasGone)
    }
}
