import Glibc
import Synchronization

/// The memory of parts. Pages of a finished part serve the next part, because each new page costs a page fault: 2,048 of
/// them for a part of 8 MiB. Free pages go back to the kernel when no part holds any.
final class PagePool: Sendable {
    private struct State: @unchecked Sendable {
        /// Free pages, by their bytes.
        var free: [Int: [UnsafeMutableRawPointer]] = [:]
        /// Bytes that parts hold.
        var held = 0
        var freeBytes: Int { free.reduce(0) { $0 + $1.key * $1.value.count } }
    }

    private struct Pages: @unchecked Sendable {
        let start: UnsafeMutableRawPointer
        let bytes: Int
    }

    /// The maximum of bytes, held and free, while any are free.
    private let limit: Int
    private let state = Mutex(State())
    /// Shorter parts come from malloc: mapping pages for each of many small objects would cost more than it saves.
    private static let minBytes = 128 << 10

    init(limit: Int) { self.limit = limit }

    /// Bytes of the pages that are mapped, held or free.
    var mapped: Int { state.withLock { $0.held + $0.freeBytes } }

    /// Memory with undefined contents. It is returned by `recycle`.
    func take(_ bytes: Int) -> UnsafeMutableRawPointer {
        guard bytes >= Self.minBytes else { return .allocate(byteCount: max(1, bytes), alignment: 16) }
        let (pages, outdated) = state.withLock { state -> (UnsafeMutableRawPointer?, [Pages]) in
            state.held += bytes
            if let pages = state.free[bytes]?.popLast() { return (pages, []) }
            return (nil, state.held + state.freeBytes > limit ? Self.removeFree(&state) : [])
        }
        if let pages { return pages }
        Self.unmap(outdated)
        let new = mmap(nil, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
        guard let new, new != MAP_FAILED else { fatalError("no memory for a part of \(bytes) bytes") }
        return new
    }

    /// Returns what `take` has returned for as many bytes.
    ///
    /// - Parameter isFast: The part was filled and sent quickly. The pages of a slow part go back to the kernel,
    ///   because in their next use they would take memory long before they have bytes.
    func recycle(_ memory: UnsafeMutableRawPointer, _ bytes: Int, isFast: Bool) {
        guard bytes >= Self.minBytes else { return memory.deallocate() }
        let outdated = state.withLock { state -> [Pages] in
            state.held -= bytes
            if isFast { state.free[bytes, default: []].append(memory) }
            let mustGo = state.held == 0 || state.held + state.freeBytes > limit
            return (mustGo ? Self.removeFree(&state) : []) + (isFast ? [] : [Pages(start: memory, bytes: bytes)])
        }
        Self.unmap(outdated)
    }

    private static func removeFree(_ state: inout State) -> [Pages] {
        defer { state.free = [:] }
        return state.free.flatMap { bytes, all in all.map { Pages(start: $0, bytes: bytes) } }
    }

    private static func unmap(_ pages: [Pages]) { for one in pages { munmap(one.start, one.bytes) } }
}
