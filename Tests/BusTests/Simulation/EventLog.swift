import HaulBus
import HaulContract
import HaulRedis
import Synchronization

/// What was published, and whether a job's events are in order by epoch and number, as a consumer would judge.
final class EventLog: Sendable {
    private struct State {
        var isListening = false
        var last: [String: EventPosition] = [:]
        var wrong: [String] = []
        var ends: Set<String> = []
    }

    private let state = Mutex(State())
    private let reader: Task<Void, Never>

    init(_ queue: Queue) {
        let (elements, feed) = AsyncStream<Subscription.Element>.makeStream()
        let subscription = queue.events()
        let listening = Task { for await element in subscription { feed.yield(element) } }
        reader = listening
        Task { [weak self] in for await element in elements { self?.note(element) } }
    }

    deinit { reader.cancel() }

    var isListening: Bool { state.withLock { $0.isListening } }
    var wrong: [String] { state.withLock { $0.wrong } }

    /// Whether everything before this message has been noted.
    func hasHeard(_ mark: String) -> Bool { state.withLock { $0.ends.contains(mark) } }

    private func note(_ element: Subscription.Element) {
        state.withLock { state in
            switch element {
            case .subscribed: state.isListening = true
            case .interrupted: break
            case .message(_, let payload):
                guard let event = Event(payload) else {
                    state.ends.insert(String(decoding: payload, as: UTF8.self))
                    return
                }
                guard let position = event.position else { return }
                if let last = state.last[event.id], position <= last {
                    state.wrong.append("\(event.id): \(event.name) is at \(position), and the one before it at \(last)")
                }
                state.last[event.id] = position
            }
        }
    }
}
