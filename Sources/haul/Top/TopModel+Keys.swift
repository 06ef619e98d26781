import HaulBus
import HaulContract
import HaulTerminal

/// What a key asks of the session, which has the terminal and Redis.
enum TopAction: Sendable, Equatable {
    case quit, interrupt, suspend, redraw, nextQueue
    case request(ControlOperation, [String], String)
    case pauseQueue(Bool)
    case open(String), close
    /// Read at once, because the view or its page has changed.
    case read
}

extension TopModel {
    /// Handles a key. Returns what the session has to do.
    ///
    /// - Parameter height: The number of rows for jobs.
    mutating func handle(_ key: Key, height: Int) -> TopAction? {
        notice = nil
        if key == .control("c") { return .interrupt }
        if key == .control("z") { return .suspend }
        if key == .control("l") { return .redraw }
        switch mode {
        case .filtering: return type(key, height)
        case .question(let question): return answer(key, question)
        case .help:
            mode = before
            return nil
        case .detail:
            if key == .escape || key == .character("q") || key == .left || key == .backspace {
                (mode, before) = (.list, .list)
                return .close
            }
            return steer(key)
        case .list: return choose(key, height) ?? steer(key)
        }
    }

    /// Keys that change what the list shows.
    private mutating func choose(_ key: Key, _ height: Int) -> TopAction? {
        let index = selectedIndex ?? 0
        switch key {
        case .character("q"): return .quit
        case .up, .character("k"): move(to: index - 1, height: height)
        case .down, .character("j"): move(to: index + 1, height: height)
        case .pageUp, .control("b"): move(to: index - height, height: height)
        case .pageDown, .control("f"): move(to: index + height, height: height)
        case .home, .character("g"):
            move(to: 0, height: height)
            isAtTop = true
        case .end, .character("G"): move(to: rows.count - 1, height: height)
        case .enter, .right:
            guard let selected else { return nil }
            (mode, detail, isAtTop) = (.detail, TopDetail(id: selected), false)
            return .open(selected)
        case .tab, .backTab: return show(turn(key == .tab ? 1 : -1))
        case .character(let digit) where ("1"..."7").contains(digit):
            return show(Self.views[digit.wholeNumberValue! - 1])
        case .character("s"), .character("S"):
            let all = JobOrder.allCases
            let step = key == .character("s") ? 1 : all.count - 1
            order = all[(all.firstIndex(of: order)! + step) % all.count]
            arrange()
            notice = view == .running ? "sorted by \(order.rawValue)" : "only running jobs are sorted"
        case .character("R"):
            isReversed.toggle()
            arrange()
        case .character("/"): mode = .filtering
        case .escape:
            (filter, marked) = ("", [])
            arrange()
        case .character(" "):
            guard let selected else { return nil }
            if marked.remove(selected) == nil { marked.insert(selected) }
            move(to: index + 1, height: height)
        case .character("a"): marked = marked.isEmpty ? Set(rows.map(\.id)) : []
        case .character("Q"): return .nextQueue
        default: return nil
        }
        return .read
    }

    private func turn(_ step: Int) -> JobState {
        let index = Self.views.firstIndex(of: view) ?? 0
        return Self.views[(index + step + Self.views.count) % Self.views.count]
    }

    private mutating func show(_ view: JobState) -> TopAction {
        (self.view, marked, selected, isAtTop) = (view, [], nil, true)
        arrange()
        return .read
    }

    /// Keys that change jobs or the queue. A question comes first.
    private mutating func steer(_ key: Key) -> TopAction? {
        switch key {
        case .character("p"): ask("Pause", .paused)
        case .character("r"): ask("Resume", .running)
        case .character("t"): ask("Retry", .running)
        case .character("c"): ask("Cancel", .cancelled)
        case .character("P"):
            let isPaused = data.isPaused
            put("\(isPaused ? "Resume" : "Pause") the queue \(queue)?", .pauseQueue(!isPaused))
        case .character("?"), .character("h"): (before, mode) = (mode, .help)
        default: return nil
        }
        return nil
    }

    private mutating func ask(_ verb: String, _ request: ControlOperation) {
        let ids = chosen
        guard let first = ids.first else { return notice = "no job is selected" }
        let what = ids.count == 1 ? "job \(first)" : "\(ids.count) jobs"
        put("\(verb) \(what)?", .request(request, ids, "\(verb.lowercased()) of \(what) requested"))
    }

    private mutating func put(_ text: String, _ action: TopAction) {
        (before, mode) = (mode, .question(Confirmation(text: text, action: action)))
    }

    private mutating func answer(_ key: Key, _ question: Confirmation) -> TopAction? {
        (mode, before) = (before, .list)
        guard key == .character("y") || key == .character("Y") else {
            notice = "nothing was done"
            return nil
        }
        marked = []
        return question.action
    }

    private mutating func type(_ key: Key, _ height: Int) -> TopAction? {
        switch key {
        case .character(let character): filter.append(character)
        case .backspace: if filter.popLast() == nil { mode = .list }
        case .control("u"): filter = ""
        case .escape: (filter, mode) = ("", .list)
        case .enter: mode = .list
        case .up, .down, .pageUp, .pageDown: return choose(key, height)
        default: return nil
        }
        arrange()
        top = 0
        scroll(height: height)
        return .read
    }
}
