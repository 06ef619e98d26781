import CHaulCurl
import Glibc
import HaulContract
import HaulExecutors

// The body of the request, which libcurl asks for.
extension TransferTask {
    func setSource(of easy: EasyHandle) {
        guard outgoing != nil else { return }
        ccurl_set_source(
            easy.raw, Unmanaged.passUnretained(self).toOpaque(),
            { bytes, size, count, context in
                TransferTask.of(context).supply(UnsafeMutableRawBufferPointer(start: bytes, count: size * count))
            },
            { context, offset, origin in
                guard offset == 0, origin == SEEK_SET else { return CURL_SEEKFUNC_CANTSEEK }
                TransferTask.of(context).outgoing?.rewind()
                return CURL_SEEKFUNC_OK
            })
    }

    /// Writes bytes to `buffer` and returns their number; 0 at the end of the body. Pauses if there are none yet.
    private func supply(_ buffer: UnsafeMutableRawBufferPointer) -> Int {
        guard let outgoing else { return 0 }
        let now = monotonicNanoseconds()
        let isOpen = request.limits.allSatisfy { $0.isOpen(now) && (outgoing.granted > 0 || !$0.hasWaiting) }
        guard isOpen else { return pauseSending(for: .limits) }
        let maxBytes = request.limits.reduce(buffer.count) { min($0, $1.maxChunk) }
        switch outgoing.read(into: UnsafeMutableRawBufferPointer(rebasing: buffer.prefix(maxBytes))) {
        case .bytes(let count):
            expect()
            for bucket in request.limits { bucket.take(count) }
            return count
        case .wait: return pauseSending(for: .source)
        case .end:
            expect()
            return 0
        case .failed(let error):
            stopSending(error)
            return Int(CURL_READFUNC_ABORT)
        }
    }

    private func pauseSending(for reason: OutgoingBody.Pause) -> Int {
        if let outgoing, outgoing.pause(for: reason), reason == .limits, state.pause != .limits {
            shared.limited.join(self)
        }
        return Int(CURL_READFUNC_PAUSE)
    }

    /// Ends a pause of sending. libcurl may ask for bytes at once, so no callback of libcurl's may call this.
    /// - Returns: libcurl's error, if one has ended the transfer.
    func resumeSending(granting bytes: Int = 0) -> CURLcode {
        guard let easy, outgoing?.pause != nil else { return CURLE_OK }
        endSendingPause()
        outgoing?.granted = bytes
        expect()
        return curl_easy_pause(easy.raw, state.pause == nil ? CURLPAUSE_CONT : CURLPAUSE_RECV)
    }

    /// Part of a streamed body is still to be sent.
    var isSending: Bool { outgoing.map { !$0.hasEnded } ?? false }

    func endSendingPause() {
        if outgoing?.endPause() == .limits, state.pause != .limits { shared.limited.leave(self) }
    }
}
