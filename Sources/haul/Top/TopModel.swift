import HaulBus
import HaulContract
import HaulTerminal

/// What `haul top` knows and what its user has chosen: a value, of which TopLayout makes rows of a screen, and which keys and
/// readings change.
struct TopModel: Sendable {
    /// A queue as its panel shows it.
    struct QueueLine: Sendable, Equatable {
        let name: String
        var queued = 0
        var running = 0
        var failed = 0
        var workers = 0
    }

    /// What is asked before it is done.
    struct Question: Sendable, Equatable {
        let text: String
        let action: TopAction
    }

    enum Mode: Sendable, Equatable {
        case list, filtering, detail, help
        case question(Question)
    }

    var queue: String
    /// What was read last.
    var data = TopData()
    /// Why nothing new is known.
    var trouble: String?
    /// Bytes and jobs per second, oldest first.
    private(set) var bytes: [Double] = []
    private(set) var jobs: [Double] = []

    var view = JobState.running
    var order = JobOrder.speed
    var isReversed = false
    var filter = ""
    var mode = Mode.list
    /// Where a question or a page was asked from.
    var before = Mode.list
    var marked: Set<String> = []
    var selected: String?
    /// The first row is selected, whichever job has it: nobody has chosen one since the list was opened.
    var isAtTop = true
    /// The first of the rows that is on the screen.
    var top = 0
    var notice: String?
    var detail: TopDetail?

    /// The jobs of the view that the filter lets through, in the order that was chosen.
    private(set) var rows: [JobRow] = []

    init(queue: String) { self.queue = queue }

    static let views: [JobState] = [.queued, .scheduled, .running, .paused, .failed, .completed, .cancelled]
    private static let history = 400

    mutating func apply(_ data: TopData) {
        self.data = data
        trouble = nil
        bytes = (bytes + [data.bytesPerSecond]).suffix(Self.history)
        jobs = (jobs + [data.jobsPerSecond]).suffix(Self.history)
        if let record = data.record, record.id == detail?.id { detail?.record = record }
        arrange()
    }

    /// Makes the rows anew, after what is known or chosen has changed.
    mutating func arrange() {
        let index = selectedIndex ?? 0
        var found = data.view == view ? data.rows : []
        if !filter.isEmpty {
            found = found.filter { row in
                [row.id, row.url, row.file, row.worker, row.error].contains { JobFilter.contains($0, filter) }
            }
        }
        // Other views come in the order that the queue has.
        if view == .running { found.sort { order.precedes($0, $1) } }
        if isReversed { found.reverse() }
        rows = found
        marked.formIntersection(rows.map(\.id))
        if isAtTop {
            (selected, top) = (rows.first?.id, 0)
        } else if selected.map({ id in !rows.contains { $0.id == id } }) ?? true {
            selected = rows.isEmpty ? nil : rows[min(index, rows.count - 1)].id
        }
    }

    var selectedIndex: Int? { selected.flatMap { id in rows.firstIndex { $0.id == id } } }

    /// Moves the selection, and the window of `height` rows with it.
    mutating func move(to index: Int, height: Int) {
        guard !rows.isEmpty else { return }
        isAtTop = false
        selected = rows[min(max(0, index), rows.count - 1)].id
        scroll(height: height)
    }

    /// Keeps the selection in the window.
    mutating func scroll(height: Int) {
        let index = selectedIndex ?? 0
        let height = max(1, height)
        top = min(max(top, index - height + 1), index)
        top = max(0, min(top, rows.count - height))
    }

    /// The ids of the rows on the screen: they are read with every refresh.
    func visible(height: Int) -> [String] { rows.dropFirst(top).prefix(max(0, height)).map(\.id) }

    /// The jobs that a key is about: those that are marked, else the selected one.
    var chosen: [String] {
        if mode == .detail, let detail { return [detail.id] }
        return marked.isEmpty ? selected.map { [$0] } ?? [] : rows.map(\.id).filter(marked.contains)
    }
}

/// What one reading of Redis has brought.
struct TopData: Sendable {
    /// Redis' clock, unix ms.
    var now: Int64 = 0
    var counts: [JobState: Int] = [:]
    var rejected = 0
    var isPaused = false
    var maxRunning: Int?
    var queues: [TopModel.QueueLine] = []
    /// Those that were read, lost ones first.
    var workers: [WorkerRow] = []
    var workerCount = 0
    var lostCount = 0
    /// The newest failures, newest first.
    var failures: [JobRow] = []
    var bytesPerSecond = 0.0
    var jobsPerSecond = 0.0
    /// The speeds of some running jobs stand for all of them.
    var isEstimated = false
    /// The state of the jobs in `rows`.
    var view = JobState.running
    var rows: [JobRow] = []
    /// What is known of the job that is open.
    var record: JobRecord?
}

/// One job, with what it has said since it was opened.
struct TopDetail: Sendable {
    struct Line: Sendable, Equatable {
        let at: Int64
        let text: String
    }

    let id: String
    var record: JobRecord?
    var events: [Line] = []

    private static let mostEvents = 200

    mutating func note(_ event: Event) {
        // A line for each second of progress would push all else away.
        if event.name == "progress", events.last?.text.hasPrefix("progress") == true { events.removeLast() }
        let words = EventLine.text(event).dropFirst(event.id.count).drop { $0 == " " }
        events.append(Line(at: event.at, text: String(words)))
        events = events.suffix(Self.mostEvents)
    }
}
