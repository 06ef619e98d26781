import HaulBus
import HaulContract
import HaulTerminal

/// What `haul top` has read and what its user has chosen. It is a value: keys and readings change it, and `TopLayout`
/// makes rows from it.
struct TopModel: Sendable {
    /// A queue as its panel shows it.
    struct QueueRow: Sendable, Equatable {
        let name: String
        var queued = 0
        var running = 0
        var failed = 0
        var workers = 0
    }

    /// A question, and what to do if the answer is yes.
    struct Confirmation: Sendable, Equatable {
        let text: String
        let action: TopAction
    }

    enum Mode: Sendable, Equatable {
        case list, filtering, detail, help
        case question(Confirmation)
    }

    var queue: String
    /// The last reading.
    var data = TopData()
    /// The error of the last reading, if it failed.
    var errorMessage: String?
    /// Bytes and jobs per second, oldest first.
    private(set) var bytes: [Double] = []
    private(set) var jobs: [Double] = []

    var view = JobState.running
    var order = JobOrder.speed
    var isReversed = false
    var filter = ""
    var mode = Mode.list
    /// The mode to return to after a question or the help.
    var before = Mode.list
    var marked: Set<String> = []
    var selected: String?
    /// The first row stays selected, whichever job has it: the user has not chosen a row in this list.
    var isAtTop = true
    /// The index of the first row on the screen.
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
        errorMessage = nil
        bytes = (bytes + [data.bytesPerSecond]).suffix(Self.history)
        jobs = (jobs + [data.jobsPerSecond]).suffix(Self.history)
        if let record = data.record, record.id == detail?.id { detail?.record = record }
        arrange()
    }

    /// Makes `rows` again after a reading or a choice.
    mutating func arrange() {
        let index = selectedIndex ?? 0
        var found = data.view == view ? data.rows : []
        if !filter.isEmpty {
            found = found.filter { row in
                [row.id, row.url, row.file, row.worker, row.error].contains { ListFilter.contains($0, filter) }
            }
        }
        // The other views keep the order of the queue.
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

    /// The ids of the rows on the screen. These jobs are read with every refresh.
    func visible(height: Int) -> [String] { rows.dropFirst(top).prefix(max(0, height)).map(\.id) }

    /// The jobs that a key acts on: the open job, else the marked jobs, else the selected job.
    var chosen: [String] {
        if mode == .detail, let detail { return [detail.id] }
        return marked.isEmpty ? selected.map { [$0] } ?? [] : rows.map(\.id).filter(marked.contains)
    }
}

/// The result of one reading of Redis.
struct TopData: Sendable {
    /// Redis' clock, unix ms.
    var now: Int64 = 0
    var counts: [JobState: Int] = [:]
    var rejected = 0
    var isPaused = false
    /// Which partitions are paused, if others are not.
    var scopeOfPause = ""
    /// Who paused the queue; nil if that was not recorded.
    var pausedBy: String?
    var maxRunning: Int?
    var queues: [TopModel.QueueRow] = []
    /// The workers that were read, lost workers first.
    var workers: [WorkerRow] = []
    var workerCount = 0
    var lostCount = 0
    /// The newest failures, newest first.
    var failures: [JobRow] = []
    var bytesPerSecond = 0.0
    var jobsPerSecond = 0.0
    /// `bytesPerSecond` is an estimate from some of the running jobs.
    var isEstimated = false
    /// The state of the jobs in `rows`.
    var view = JobState.running
    var rows: [JobRow] = []
    /// The job whose page is open.
    var record: JobRecord?
}

/// The open page of one job, with its events since it was opened.
struct TopDetail: Sendable {
    struct Line: Sendable, Equatable {
        let at: Int64
        let text: String
    }

    let id: String
    var record: JobRecord?
    var events: [Line] = []

    private static let maxEvents = 200

    mutating func record(_ event: Event) {
        // Only the last of successive progress events is kept: one each second would push out all others.
        if event.name == "progress", events.last?.text.hasPrefix("progress") == true { events.removeLast() }
        let words = EventLine.text(event).dropFirst(event.id.count).drop { $0 == " " }
        events.append(Line(at: event.at, text: String(words)))
        events = events.suffix(Self.maxEvents)
    }
}
