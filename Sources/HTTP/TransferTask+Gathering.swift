// Slow bodies. A small piece costs TCP, the loop and libcurl some ten times what its bytes do, and a thousand slow servers
// send ten thousand a second. So the bytes of a slow body gather in its socket, up to most of a block or for as long as `patience`.
extension TransferTask {
    /// Of a body so many bytes are always read as they come. TLS may have taken a part of them, less than a record, out of
    /// the socket already without showing any, so that what is still to come through the socket is less than what is missing.
    private static let rest: Int64 = 32 << 10

    /// To be called every `tick`: judges whether the body is slow, and sees that what has waited in the socket for longer than
    /// `patience` is read. So a body that becomes slower, or stops, has shown all its bytes soon.
    func lookAfterPace(_ now: UInt64, patience: UInt64) {
        pace.judge(taken, at: now, patience: patience)
        if !pace.isSlow || now >= expecting + patience { mark.set(1) }
    }

    /// Ends the gathering until libcurl has read what there is.
    func readWhatWaits() {
        guard pace.isSlow else { return }
        mark.set(1)
        slow.join(self)
    }

    /// Lets the bytes gather from now on, but never more than are sure to come. Only where a length tells the end, or its
    /// sign would wait in the socket; not with a limit of rate, which has its own pace; and not with HTTP/2, whose frames
    /// libcurl must answer.
    func gather() {
        guard pace.isSlow, !isRetired, head?.isHTTP2 == false, pause == nil, stop == nil, !hasLimits,
            case .stream(let bodySink, let offset) = sink,
            let announced
        else { return }
        let end = min(announced, demanded ?? .max, progress.end - offset)
        bodySink.rest()
        mark.set(Int(max(1, min(Int64(LowWaterMark.highest), end - taken - Self.rest))))
    }
}
