import CHaulCurl
import HaulContract

/// Reads the heads of all responses of a task and its child tasks: those of redirects and of further connections, too.
/// A command that shows or counts connections sets one. It changes nothing about the transfers.
package final class ResponseObserver: Sendable {
    /// An object, because release builds crashed when they bound a function to a task-local value (Swift 6.3).
    @TaskLocal package static var current: ResponseObserver?

    let receive: @Sendable (ResponseHead) -> Void

    package init(_ receive: @escaping @Sendable (ResponseHead) -> Void) { self.receive = receive }
}

/// How a response came about, for a person who watches.
package final class ConnectionFacts: Sendable {
    /// Seconds from the start of the request until the name was resolved, the connection and TLS were established, the
    /// request was about to be sent, and the first byte of the response arrived. 0 for what was not needed.
    package let resolved, connected, secured, ready, responded: Double
    /// 1.0, 1.1, 2 or 3.
    package let httpVersion: String
    package let remotePort, localPort: Int
    /// For example `TLSv1.3`; nil without TLS.
    package let tls: String?
    /// Without credentials; nil if there is none.
    package let proxy: String?

    init(_ easy: EasyHandle, proxy: String?) {
        func seconds(_ info: CURLINFO) -> Double { Double(ccurl_get_offset(easy.raw, info)) / 1_000_000 }
        resolved = seconds(CURLINFO_NAMELOOKUP_TIME_T)
        connected = seconds(CURLINFO_CONNECT_TIME_T)
        secured = seconds(CURLINFO_APPCONNECT_TIME_T)
        ready = seconds(CURLINFO_PRETRANSFER_TIME_T)
        responded = seconds(CURLINFO_STARTTRANSFER_TIME_T)
        httpVersion =
            switch ccurl_get_long(easy.raw, CURLINFO_HTTP_VERSION) {
            case Int(CURL_HTTP_VERSION_1_0): "1.0"
            case Int(CURL_HTTP_VERSION_2_0): "2"
            case Int(CURL_HTTP_VERSION_3): "3"
            default: "1.1"
            }
        remotePort = Int(ccurl_get_long(easy.raw, CURLINFO_PRIMARY_PORT))
        localPort = Int(ccurl_get_long(easy.raw, CURLINFO_LOCAL_PORT))
        tls = TLSSession.version(of: easy)
        // Without a scheme it would not be taken for a URL.
        self.proxy = proxy.map { MaskedURL.text($0.contains("://") ? $0 : "http://\($0)") }
    }
}
