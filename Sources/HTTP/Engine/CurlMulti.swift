import CHaulCurl
import HaulExecutors

/// libcurl's multi handle on an event loop. The loop waits for the sockets and timers that libcurl names, and calls
/// libcurl when they are ready.
///
/// Everything runs on the loop's thread.
final class CurlMulti {
    private let loop: EventLoop
    private let raw = curl_multi_init()!
    private let share = curl_share_init()!
    private var timer: EventLoop.Timer?
    private var watched: Set<Int32> = []
    /// Includes the connections that libcurl keeps for later requests.
    let connections = ConnectionSockets()
    /// How often a socket was found ready.
    private(set) var turns = 0
    /// Called each time that libcurl has run, to find the transfers that are done.
    var afterTurn: () -> Void = {}

    init(loop: EventLoop, idleConnections: Int) {
        self.loop = loop
        connections.willClose = { [unowned self] in self.loop.forget($0) }
        // A multi handle shares connections and resolved names anyway. TLS sessions are only shared by a share handle.
        ccurl_share(share, CURL_LOCK_DATA_SSL_SESSION)
        ccurl_multi_set_long(raw, CURLMOPT_MAXCONNECTS, idleConnections)
        // Each connection serves one transfer, with HTTP/2 too, so that pausing or dropping a transfer affects no
        // other.
        ccurl_multi_set_long(raw, CURLMOPT_PIPELINING, Int(CURLPIPE_NOTHING))
        ccurl_multi_set_callbacks(
            raw, Unmanaged.passUnretained(self).toOpaque(),
            { easy, socket, interest, context, _ in
                // A connection that is being closed belongs to no transfer any more.
                if interest != CURL_POLL_REMOVE, let easy, let task = ccurl_get_private(easy) {
                    TransferTask.of(task).reading.mark.socket = socket
                }
                Unmanaged<CurlMulti>.fromOpaque(context!).takeUnretainedValue().watch(socket, for: interest)
                return 0
            },
            { _, milliseconds, context in
                Unmanaged<CurlMulti>.fromOpaque(context!).takeUnretainedValue().schedule(after: milliseconds)
                return 0
            })
    }

    deinit {
        curl_multi_cleanup(raw)
        curl_share_cleanup(share)
    }

    func add(_ easy: EasyHandle) -> CURLMcode {
        ccurl_set_pointer(easy.raw, CURLOPT_SHARE, share)
        ccurl_set_close_callback(
            easy.raw, Unmanaged.passUnretained(connections).toOpaque(),
            { context, socket in
                Unmanaged<ConnectionSockets>.fromOpaque(context!).takeUnretainedValue().close(socket)
            })
        return curl_multi_add_handle(raw, easy.raw)
    }

    func remove(_ easy: EasyHandle) {
        curl_multi_remove_handle(raw, easy.raw)
        ccurl_set_pointer(easy.raw, CURLOPT_SHARE, nil)
    }

    /// Makes libcurl check a connecting transfer although none of its sockets is ready. After an address has failed,
    /// the transfer has no socket. libcurl opens one for the next address at its next check, but requests no wake-up.
    func wake(_ easy: EasyHandle) {
        // Ending a pause is the documented way to make libcurl check a handle soon. Nothing is being sent yet, so
        // nothing is paused.
        curl_easy_pause(easy.raw, CURLPAUSE_SEND)
        curl_easy_pause(easy.raw, CURLPAUSE_CONT)
    }

    /// The context and result of one more transfer that has ended; nil if there is none.
    func nextDone() -> (context: UnsafeMutableRawPointer, result: CURLcode)? {
        var left: Int32 = 0
        while let message = curl_multi_info_read(raw, &left) {
            guard message.pointee.msg == CURLMSG_DONE, let context = ccurl_get_private(message.pointee.easy_handle)
            else { continue }
            return (context, message.pointee.data.result)
        }
        return nil
    }

    /// Ends the watches and the timer. The loop's handlers refer to this object but do not own it, so none may run
    /// after its end.
    func stop() {
        for socket in watched { loop.unwatch(socket) }
        connections.willClose = { _ in }
        if let timer { loop.cancel(timer) }
        afterTurn = {}
    }

    private func watch(_ socket: Int32, for interest: Int32) {
        guard interest != CURL_POLL_REMOVE else {
            watched.remove(socket)
            // A kept connection mostly serves the next transfer at once.
            if connections.isOpen(socket) { loop.rest(socket) } else { loop.unwatch(socket) }
            return
        }
        var readiness: EventLoop.Readiness = []
        if interest & CURL_POLL_IN != 0 { readiness.insert(.readable) }
        if interest & CURL_POLL_OUT != 0 { readiness.insert(.writable) }
        if watched.insert(socket).inserted {
            loop.watch(socket, for: readiness) { [unowned self] ready in turn(socket, ready) }
        } else {
            loop.change(socket, to: readiness)
        }
    }

    private func turn(_ socket: Int32, _ ready: EventLoop.Readiness) {
        var events: Int32 = 0
        if ready.contains(.readable) { events |= CURL_CSELECT_IN }
        if ready.contains(.writable) { events |= CURL_CSELECT_OUT }
        if !ready.isDisjoint(with: .failed) { events |= CURL_CSELECT_ERR }
        turns += 1
        run(socket, events)
    }

    /// libcurl must not be called from its own callback, so even a timer of 0 ms waits for the loop's next turn.
    private func schedule(after milliseconds: Int) {
        if let timer { loop.cancel(timer) }
        timer = nil
        guard milliseconds >= 0 else { return }
        timer = loop.schedule(at: .now + .milliseconds(milliseconds)) { [unowned self] in
            timer = nil
            run(CURL_SOCKET_TIMEOUT, 0)
        }
    }

    private func run(_ socket: Int32, _ events: Int32) {
        var running: Int32 = 0
        curl_multi_socket_action(raw, socket, events, &running)
        afterTurn()
    }
}
