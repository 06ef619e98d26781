import HaulContract

/// A streamed body on its way out, on the loop's thread: between libcurl, which asks for bytes, and the source that has them.
///
/// It has many properties: where the bytes come from and how far they got, which a rewind begins anew, and why libcurl waits,
/// which a rewind leaves alone.
final class OutgoingBody {
    /// Why libcurl was told to ask later.
    enum Pause { case limits, source }

    private let supply: any BodySupply
    private let wake: @Sendable () async -> Void
    private let progress: SendingProgress?
    private var source: any BodySource
    private(set) var position: Int64 = 0
    private(set) var isOver = false
    private(set) var pause: Pause?
    /// Bytes that it may send though others wait for the same limit of rate.
    var granted = 0
    /// The server refused to be asked first (status 417).
    var isQuestionRefused = false

    init(_ supply: any BodySupply, progress: SendingProgress?, wake: @escaping @Sendable () async -> Void) {
        (self.supply, self.progress, self.wake) = (supply, progress, wake)
        source = supply.source(wake: wake)
        isOver = supply.length == 0
        progress?.rewind()
    }

    /// Begins anew.
    func rewind() {
        source.end()
        source = supply.source(wake: wake)
        (position, isOver) = (0, false)
        progress?.rewind()
    }

    /// The next bytes. A source that does not give as many as it has promised is wrong.
    func read(into buffer: UnsafeMutableRawBufferPointer) -> SourceAnswer {
        let answer = source.read(into: buffer)
        switch answer {
        case .bytes(let count):
            position += Int64(count)
            granted = max(0, granted - count)
            progress?.add(count)
            if let length = supply.length {
                if position > length { return .failed(Self.changed) }
                // libcurl does not ask again.
                isOver = position == length
            }
        case .end:
            isOver = true
            if let length = supply.length, position != length { return .failed(Self.changed) }
        case .wait, .failed: break
        }
        return answer
    }

    private static let changed = TransferError(.sourceChanged, "what is sent has changed its length on the way")

    /// Returns whether it was not paused before.
    func pause(for reason: Pause) -> Bool {
        defer { pause = reason }
        progress?.hold(true)
        return pause == nil
    }

    /// Returns what it was paused for.
    func endPause() -> Pause? {
        progress?.hold(false)
        return pause.take()
    }

    func end() { source.end() }
}
