import CHaulCurl
import Glibc
import HaulContract

extension TransferError {
    /// The address policy refuses an address of the URL's host. The addresses of a name appear only in the log, because
    /// otherwise a producer could read the worker's DNS through its jobs.
    static func forbidden(_ address: IPAddress?, _ kind: String, of url: String) -> TransferError {
        let target = Authority(url)
        let what = target.map { $0.isNumeric ? "address \($0.host)" : "address of \($0.host)" } ?? "address"
        var failure = Failure(
            .addressForbidden,
            "the \(what) is not allowed (\(kind)); the worker's operator can allow it with --allow-address")
        failure.detail = address.map { "\($0)" }
        return .failed(failure)
    }

    static func localLimit(_ systemError: Int32) -> TransferError {
        TransferError(
            .localLimit,
            "no socket could be opened here (\(String(cString: strerror(systemError)))); raise its limits or lower --slots"
        )
    }

    /// Why a file cannot be read; nil if it can be.
    static func unreadable(_ file: String) -> String? {
        let descriptor = open(file, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { return String(cString: strerror(errno)) }
        close(descriptor)
        return nil
    }

    static func unresolved(_ host: String) -> TransferError {
        TransferError(.dns, "\(host) cannot be resolved; check the name and this host's resolver")
    }

    /// The error for a failure of libcurl.
    static func failed(_ task: TransferTask, _ code: CURLcode) -> TransferError {
        if let refusal = task.connection.refusal { return refusal }
        guard let easy = task.easy else { return .cancelled }
        return CurlFailure(code, of: task, easy).error
    }
}

/// A failure of libcurl, with everything that is needed to explain it to a person.
struct CurlFailure {
    private let code: CURLcode
    /// libcurl's message, which may be empty.
    private let message: String
    /// errno; 0 if there was none.
    private let systemError: Int32
    private let target: Authority?
    private let connectTimeout: Duration
    private let hasProxy: Bool
    /// An https proxy is used, and no tunnel through it is open yet: a failure of TLS is then the proxy's.
    private let isBeforeTunnel: Bool
    private let isNameKnown: Bool
    private let isConnected: Bool
    private let hasSocket: Bool

    init(_ code: CURLcode, of task: TransferTask, _ easy: EasyHandle) {
        self.code = code
        (message, systemError) = (easy.errorMessage, easy.systemError)
        target = Authority(task.request.url)
        connectTimeout = task.request.connectTimeout
        let proxy = task.configuration.proxy
        hasProxy = proxy != nil
        isBeforeTunnel =
            proxy?.lowercased().hasPrefix("https:") == true
            && ccurl_get_long(easy.raw, CURLINFO_HTTP_CONNECTCODE) != 200
        isNameKnown = ccurl_get_offset(easy.raw, CURLINFO_NAMELOOKUP_TIME_T) != 0
        (isConnected, hasSocket) = (task.connection.isConnected, !task.connection.sockets.isEmpty)
    }

    private var server: String { target.map { "\($0.host):\($0.port)" } ?? "the server" }
    /// libcurl does not always give a message.
    private var explanation: String { message.isEmpty ? String(cString: curl_easy_strerror(code)) : message }
    private var reason: String { systemError != 0 ? String(cString: strerror(systemError)) : explanation }

    var error: TransferError {
        let (kind, text) = tlsFailure ?? connectFailure ?? responseFailure
        return TransferError(kind, text, isFinal: kind == .tls && isCertificateError)
    }

    /// The error is in the server's certificate or in ours, or we have none. It lasts until an operator repairs it.
    private var isCertificateError: Bool {
        [
            CURLE_PEER_FAILED_VERIFICATION, CURLE_SSL_ISSUER_ERROR, CURLE_SSL_INVALIDCERTSTATUS,
            CURLE_SSL_PINNEDPUBKEYNOTMATCH,
        ].contains(code)
            || requiresCertificate
    }

    /// The server has ended the connection because it requires a client certificate, or another one. With TLS 1.3 its
    /// alert arrives after the handshake has ended on our side.
    private var requiresCertificate: Bool {
        ["alert certificate required", "alert bad certificate", "alert unknown ca"].contains { message.contains($0) }
    }

    private var tlsFailure: (ErrorCode, String)? {
        if requiresCertificate, !isBeforeTunnel {
            return (.tls, "\(server) requires another client certificate than it received, if any: see --client-cert")
        }
        switch code {
        case CURLE_PEER_FAILED_VERIFICATION where isBeforeTunnel, CURLE_SSL_CONNECT_ERROR where isBeforeTunnel:
            return (.proxy, "TLS with the proxy failed, --ca adds authorities: \(message)")
        case CURLE_PEER_FAILED_VERIFICATION, CURLE_SSL_CACERT_BADFILE, CURLE_SSL_ISSUER_ERROR,
            CURLE_SSL_INVALIDCERTSTATUS:
            return (.tls, "the certificate of \(server) cannot be trusted: \(message)")
        case CURLE_SSL_PINNEDPUBKEYNOTMATCH: return (.tls, "the key of \(server) is not the one of --pin")
        case CURLE_SSL_CONNECT_ERROR, CURLE_SSL_CIPHER, CURLE_SSL_CERTPROBLEM, CURLE_SSL_ENGINE_INITFAILED:
            return (.tls, "TLS with \(server) failed: \(message)")
        default: return nil
        }
    }

    private var connectFailure: (ErrorCode, String)? {
        switch code {
        case CURLE_COULDNT_RESOLVE_PROXY: return (.proxy, "the proxy's name cannot be resolved")
        case CURLE_COULDNT_RESOLVE_HOST where Self.isOutOfDescriptors:
            return (.localLimit, "this worker is out of file descriptors: raise its limits or lower --slots")
        case CURLE_COULDNT_RESOLVE_HOST:
            guard case .failed(let failure) = TransferError.unresolved(target?.host ?? "the host") else { return nil }
            return (failure.code, failure.message)
        case CURLE_COULDNT_CONNECT:
            return hasProxy
                ? (.proxy, "the proxy cannot be reached: \(reason)")
                : (.connect, "\(server) cannot be reached: \(reason)")
        case CURLE_PROXY: return (.proxy, "the proxy refused: \(message)")
        case CURLE_OPERATION_TIMEDOUT:
            let limit = connectTimeout.components.seconds
            return !isNameKnown && target?.isNumeric == false
                ? (.dns, "\(target?.host ?? "the host") was not resolved within \(limit) s")
                : (hasProxy ? .proxy : .connect, "\(server) did not accept the connection within \(limit) s")
        case CURLE_UNSUPPORTED_PROTOCOL where !isConnected, CURLE_URL_MALFORMAT where !isConnected:
            return (.badJob, "the URL is not a valid http or https URL")
        case CURLE_OUT_OF_MEMORY where !isConnected:
            return hasProxy && hasSocket
                ? (.proxy, "the proxy sent a header line that is longer than 100 KB") : (.localLimit, "out of memory")
        case CURLE_RECV_ERROR where hasProxy && !isConnected, CURLE_SEND_ERROR where hasProxy && !isConnected,
            CURLE_PARTIAL_FILE where hasProxy && !isConnected:
            return (.proxy, "the proxy refused: \(message)")
        default: return nil
        }
    }

    private var responseFailure: (ErrorCode, String) {
        switch code {
        case CURLE_OK, CURLE_GOT_NOTHING:
            return (.incomplete, "\(server) closed the connection without a response")
        case CURLE_UNSUPPORTED_PROTOCOL, CURLE_URL_MALFORMAT: return (.badResponse, "\(server) does not speak HTTP")
        case CURLE_WEIRD_SERVER_REPLY, CURLE_BAD_CONTENT_ENCODING:
            return (.badResponse, "\(server) sent a response that is not HTTP: \(message)")
        case CURLE_HTTP2, CURLE_HTTP2_STREAM:
            return (.incomplete, "\(server) broke the response off: \(message)")
        // libcurl also reports this error for a header line that is too long for it.
        case CURLE_OUT_OF_MEMORY:
            return (.badResponse, "\(server) sent a header line that is longer than 100 KB")
        case CURLE_RECV_ERROR, CURLE_SEND_ERROR, CURLE_PARTIAL_FILE:
            // The errno may be that of an earlier attempt to connect.
            return message.contains("chunk")
                ? (.badResponse, "\(server) sent a broken chunk: \(message)")
                : (.incomplete, "the connection to \(server) broke: \(reason)")
        default: return (.badResponse, "\(server): \(explanation)")
        }
    }

    /// The resolver needs a socket. If none can be opened, it does not report that as the reason.
    private static var isOutOfDescriptors: Bool {
        let probe = dup(0)
        if probe >= 0 { close(probe) }
        return probe < 0 && (errno == EMFILE || errno == ENFILE)
    }
}

/// Why a request got no response head, and what may help.
struct HeadFailure: Error {
    /// What to try next.
    enum Remedy {
        /// A new connection instead of a kept one, on which nothing was sent.
        case newConnection
        /// HTTP/2: the failure is typical of servers that speak only HTTP/2, which was not offered.
        case http2
        /// The resolver: only the resolver knows whether the name does not exist or its own failure is temporary.
        case resolver
        /// The body without `Expect: 100-continue`, which the server refuses.
        case withoutExpect
    }

    let error: TransferError
    var remedy: Remedy?
    /// The server had agreed to HTTP/2 before the failure.
    var usedHTTP2 = false
}
