import HaulContract

/// A streamed body that is being sent, on the loop's thread: between libcurl, which asks for bytes, and the source,
/// which has them.
///
/// The source and its progress restart at a rewind, but the reason why libcurl waits survives it.
final class OutgoingBody {
    /// Why libcurl has to ask again later.
    enum Pause { case limits, source }

    private let supply: any BodySupply
    private let wake: @Sendable () async -> Void
    private let progress: SendingProgress?
    private var source: any BodySource
    private(set) var position: Int64 = 0
    private(set) var hasEnded = false
    private(set) var pause: Pause?
    /// Bytes that may be sent although other transfers wait for the same rate limit.
    var granted = 0
    /// The server responded with 417: it does not support `Expect: 100-continue`.
    var isExpectationRefused = false

    init(_ supply: any BodySupply, progress: SendingProgress?, wake: @escaping @Sendable () async -> Void) {
        (self.supply, self.progress, self.wake) = (supply, progress, wake)
        source = supply.source(wake: wake)
        hasEnded = supply.length == 0
        progress?.rewind()
    }

    /// Restarts from the first byte.
    func rewind() {
        source.end()
        source = supply.source(wake: wake)
        (position, hasEnded) = (0, false)
        progress?.rewind()
    }

    /// Reads the next bytes. It is an error if the source supplies more or fewer bytes than it has announced.
    func read(into buffer: UnsafeMutableRawBufferPointer) -> SourceResult {
        let result = source.read(into: buffer)
        switch result {
        case .bytes(let count):
            position += Int64(count)
            granted = max(0, granted - count)
            progress?.add(count)
            if let length = supply.length {
                if position > length { return .failed(Self.changed) }
                // libcurl does not ask again after the last byte.
                hasEnded = position == length
            }
        case .end:
            hasEnded = true
            if let length = supply.length, position != length { return .failed(Self.changed) }
        case .wait, .failed: break
        }
        return result
    }

    private static let changed = TransferError(.sourceChanged, "the length of the body has changed while it was sent")

    /// Returns false if it was paused already.
    func pause(for reason: Pause) -> Bool {
        defer { pause = reason }
        progress?.hold(true)
        return pause == nil
    }

    /// Returns the reason of the pause that ends; nil if there was none.
    func endPause() -> Pause? {
        progress?.hold(false)
        return pause.take()
    }

    func end() { source.end() }
}
