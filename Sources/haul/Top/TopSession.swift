import HaulBus
import HaulContract
import HaulRedis
import HaulTerminal

/// Runs `haul top`: connects keys, readings of Redis, and the screen. A reading never delays a key.
///
/// `TopModel`, a value, decides what is shown and what keys do.
final class TopSession {
    private enum Input: Sendable {
        case screen(FullScreen.Input)
        /// No more bytes have arrived after an ESC.
        case pause
        case tick
        /// A reading, with the value that `turn` had when it began.
        case read(Int, Result<TopData, RedisError>)
        case event(Event)
        case done(String)
        case changed(Queue)
    }

    private var queue: Queue
    private var reader: TopReader
    private var model: TopModel
    private let interval: Duration
    private let screen = FullScreen()
    private var keys = KeyDecoder()
    private let isUnicode = Columns.showsUnicode
    private let inputs: AsyncStream<Input>
    private let feed: AsyncStream<Input>.Continuation
    private var reading: Task<Void, Never>?
    /// Another reading was asked for during the present one.
    private var wantsReading = false
    private var listening: Task<Void, Never>?
    /// Grows with each change of the queue. A reading from an earlier turn is of another queue, and is dropped.
    private var turn = 0
    private var isInterrupted = false

    init(_ queue: Queue, interval: Duration) {
        (self.queue, self.interval) = (queue, interval)
        reader = TopReader(queue)
        model = TopModel(queue: queue.name.text)
        (inputs, feed) = AsyncStream<Input>.makeStream()
    }

    func run() async throws {
        let terminal = screen.open()
        let ticker = Task { [feed, interval] in
            while !Task.isCancelled {
                feed.yield(.tick)
                try? await Task.sleep(for: interval)
            }
        }
        let typing = Task { [feed] in for await input in terminal { feed.yield(.screen(input)) } }
        defer {
            ticker.cancel()
            typing.cancel()
            listening?.cancel()
            screen.leave()
        }
        draw()
        for await input in inputs {
            guard take(input) else { break }
        }
        if isInterrupted { throw ExitStatus.interrupted }
    }

    private var layout: TopLayout {
        let (width, height) = Terminal.size
        return TopLayout(model: model, width: width, height: height, isUnicode: isUnicode)
    }

    private func draw() {
        model.scroll(height: layout.listHeight)
        let layout = layout
        screen.draw(layout.rows, width: layout.width)
    }

    /// Handles an input. Returns false at the end of the session.
    private func take(_ input: Input) -> Bool {
        switch input {
        case .screen(.bytes(let bytes)):
            for key in keys.feed(bytes) where !press(key) { return false }
            if keys.isWaiting { pauseKeys() }
        case .pause: for key in keys.flush() where !press(key) { return false }
        case .screen(.resized): screen.forget()
        case .screen(.suspended):
            screen.suspend()
            return true
        case .screen(.continued):
            screen.resume()
            read()
        case .screen(.ended):
            isInterrupted = true
            return false
        case .tick: read()
        case .read(let number, let result):
            guard number == turn else { return true }
            reading = nil
            switch result {
            case .success(let data): model.apply(data)
            case .failure(let error): model.errorMessage = error.message
            }
            if wantsReading { read() }
        case .event(let event): model.detail?.record(event)
        case .done(let notice):
            model.notice = notice
            read()
        case .changed(let queue): change(to: queue)
        }
        draw()
        return true
    }

    /// After a lone ESC, waits 60 ms for more bytes of a sequence.
    private func pauseKeys() {
        Task { [feed] in
            try? await Task.sleep(for: .milliseconds(60))
            feed.yield(.pause)
        }
    }

    private func read() {
        guard reading == nil else { return wantsReading = true }
        wantsReading = false
        var focus = TopReader.Focus()
        focus.view = model.view
        focus.visible = model.visible(height: layout.listHeight)
        focus.detail = model.detail?.id
        reading = Task { [reader, feed, focus, turn] in
            do throws(RedisError) {
                feed.yield(.read(turn, .success(try await reader.read(focus))))
            } catch {
                feed.yield(.read(turn, .failure(error)))
            }
        }
    }

    private func press(_ key: Key) -> Bool {
        guard let action = model.handle(key, height: layout.listHeight) else { return true }
        switch action {
        case .quit: return false
        case .interrupt:
            isInterrupted = true
            return false
        case .suspend: screen.suspend()
        case .redraw: screen.forget()
        case .read: read()
        case .open(let id):
            listen(to: id)
            read()
        case .close:
            listening?.cancel()
            model.detail = nil
        case .request(let request, let ids, let notice):
            act(notice) { [queue] () throws(RedisError) in
                var change = ChangeRecord(byUser: request.rawValue)
                change.select(ids)
                change.at = try await queue.request(request, of: ids)
                await queue.record(change)
            }
        case .pauseQueue(let isPaused):
            act(isPaused ? "the queue is paused" : "the queue is open") { [queue] () throws(RedisError) in
                try await queue.change(ChangeRecord(setting: isPaused ? "paused=1" : "paused=none")) {
                    () throws(RedisError) in try await queue.setSetting("paused", to: isPaused ? "1" : nil)
                }
            }
        case .nextQueue:
            Task { [reader, feed, queue] in
                if let name = await reader.next() {
                    feed.yield(.changed(Queue(name, redis: Redis(queue.redis.url, name: "haul-top"))))
                } else {
                    feed.yield(.done("there is no other queue"))
                }
            }
        }
        return true
    }

    private func act(_ notice: String, _ body: @escaping @Sendable () async throws(RedisError) -> Void) {
        Task { [feed] in
            do throws(RedisError) {
                try await body()
                feed.yield(.done(notice))
            } catch {
                feed.yield(.done(error.message))
            }
        }
    }

    private func listen(to id: String) {
        listening?.cancel()
        let subscription = queue.events(of: [id])
        listening = Task { [feed] in
            for await element in subscription {
                if case .message(_, let payload) = element, let event = Event(payload) { feed.yield(.event(event)) }
            }
        }
    }

    private func change(to queue: Queue) {
        let (old, client) = (reader, self.queue.redis)
        Task {
            await old.close()
            await client.close()
        }
        self.queue = queue
        reader = TopReader(queue)
        let view = model.view
        model = TopModel(queue: queue.name.text)
        model.view = view
        reading?.cancel()
        reading = nil
        turn += 1
        read()
    }
}
