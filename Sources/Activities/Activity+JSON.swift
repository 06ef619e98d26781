package import HaulContract

// How an activity's events and progress become members of a JSON event. A worker publishes these events;
// `haul get --json` prints them.

extension ActivityEvent {
    package var name: String {
        switch self {
        case .started: "started"
        case .resumed: "resumed"
        case .restarted: "restarted"
        case .warning: "warning"
        }
    }

    /// Sets the members that only this kind of event has.
    package func write(to event: inout JSONObject) {
        switch self {
        case .started(let total, let resumable):
            event.set("total", total)
            event.set("resumable", resumable)
        case .resumed(let offset, let total):
            event.set("offset", offset)
            event.set("total", total)
        case .restarted(let why): event.set("why", why)
        case .warning(let text): event.set("message", text)
        }
    }
}

extension ActivityProgress {
    /// Sets the members of the event `progress`. Speeds are in bytes per second, `eta` is in seconds.
    package func write(to event: inout JSONObject) {
        let fraction = total.flatMap { $0 > 0 ? Double(received) / Double($0) : nil }
        event.set("received", received)
        event.set("total", total)
        event.set("fraction", fraction.map { ($0 * 10_000).rounded() / 10_000 })
        event.set("speed", speed)
        event.set("average", average)
        event.set("eta", eta)
        event.set("connections", connections)
    }
}
