import HaulBus
import HaulContract
import HaulRedis
import Synchronization

/// Records what is published, and whether each job's events are in order by epoch and `seq`, as a consumer sees it.
final class EventLog: Sendable {
    private struct State {
        var isListening = false
        var all: [Event] = []
        var ends: [String: Int] = [:]
        var last: [String: EventPosition] = [:]
        var violations: [String] = []
        var marks: Set<String> = []
        /// What was published and not taken yet.
        var published: [[UInt8]] = []
        var rounds: [String: [Int]] = [:]
    }

    private let state = Mutex(State())
    private let reader: Task<Void, Never>
    private let keepsAll: Bool

    /// - Parameter keepsAll: Whether the events themselves are kept, too.
    init(_ queue: Queue, keepsAll: Bool = false) {
        self.keepsAll = keepsAll
        let (elements, feed) = AsyncStream<Subscription.Element>.makeStream()
        let subscription = queue.events()
        let listening = Task { for await element in subscription { feed.yield(element) } }
        reader = listening
        Task { [weak self] in for await element in elements { self?.record(element) } }
    }

    deinit { reader.cancel() }

    var isListening: Bool { state.withLock { $0.isListening } }
    /// All events, in the order in which they came.
    var all: [Event] { state.withLock { $0.all } }
    /// How many final states of each job were published.
    var ends: [String: Int] { state.withLock { $0.ends } }
    /// The rounds of each batch that were published, in their order.
    var rounds: [String: [Int]] { state.withLock { $0.rounds } }
    var violations: [String] { state.withLock { $0.violations } }

    /// What was published since the last call, except for `progress`.
    func takePublished() -> [[UInt8]] { state.withLock { exchange(&$0.published, with: []) } }

    /// Whether everything that was published before `mark` has been recorded.
    func hasReceived(_ mark: String) -> Bool { state.withLock { $0.marks.contains(mark) } }

    private func record(_ element: Subscription.Element) {
        state.withLock { state in
            switch element {
            case .subscribed: state.isListening = true
            case .interrupted: break
            case .message(_, let payload):
                guard let event = Event(payload) else {
                    state.marks.insert(String(decoding: payload, as: UTF8.self))
                    return
                }
                if keepsAll { state.all.append(event) }
                if event.kind != .progress { state.published.append(payload) }
                if event.finalState != nil { state.ends[event.id, default: 0] += 1 }
                if let batch = event.batch { state.rounds[batch, default: []].append(event.round ?? 0) }
                guard let position = event.position else { return }
                if let last = state.last[event.id], position <= last {
                    state.violations.append(
                        "\(event.id): \(event.name) is at \(position), and the one before it at \(last)")
                }
                state.last[event.id] = position
            }
        }
    }
}
