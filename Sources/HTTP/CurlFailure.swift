import CHaulCurl
import Glibc
import HaulContract

/// What libcurl's results mean to a person.
extension TransferError {
    static func forbidden(_ address: String, _ kind: String) -> TransferError {
        TransferError(
            .addressForbidden,
            "the address \(address) is not allowed (\(kind)); the worker's operator can allow it with --allow-address")
    }

    static func localLimit(_ systemError: Int32) -> TransferError {
        TransferError(
            .localLimit,
            "no socket could be opened here (\(String(cString: strerror(systemError)))); raise its limits or lower --slots"
        )
    }

    static func incomplete(_ task: TransferTask, _ code: CURLcode, of expected: Int64) -> TransferError {
        let broken = failed(task, code)
        // A broken chunk coding or a lost TLS session is worse than a short body.
        if code != CURLE_OK, case .failed(let failure) = broken, [.badResponse, .tls].contains(failure.code) {
            return broken
        }
        return TransferError(
            .incomplete, "the connection ended after \(task.taken) of \(expected) bytes")
    }

    /// The connection, whose end is all that tells the body's end, broke instead of being closed.
    static func cut(_ task: TransferTask) -> TransferError {
        TransferError(
            .incomplete,
            "the TLS connection broke off after \(task.taken) bytes, and the server did not say how many there are")
    }

    /// For any result but an incomplete body of known length.
    static func failed(_ task: TransferTask, _ code: CURLcode) -> TransferError {
        let systemError = task.systemError
        let (kind, text) = explain(task, code, systemError)
        if let refusal = task.connectRefusal, task.sockets.isEmpty { return refusal }
        return TransferError(kind, text, isFinal: kind == .tls && isOfCertificate(task, code))
    }

    /// The server's certificate is what is wrong, or ours, or that we have none: it stays so until somebody mends it.
    private static func isOfCertificate(_ task: TransferTask, _ code: CURLcode) -> Bool {
        [CURLE_PEER_FAILED_VERIFICATION, CURLE_SSL_ISSUER_ERROR, CURLE_SSL_INVALIDCERTSTATUS].contains(code)
            || wantsCertificate(task)
    }

    /// The server has ended the connection because it wants to see a certificate of ours, or another one. With TLS 1.3 that
    /// comes when the handshake is over on our side.
    private static func wantsCertificate(_ task: TransferTask) -> Bool {
        ["alert certificate required", "alert bad certificate", "alert unknown ca"].contains {
            task.errorMessage.contains($0)
        }
    }

    static func unresolved(_ host: String) -> TransferError { TransferError(.dns, unresolvedMessage(host)) }

    private static func unresolvedMessage(_ host: String) -> String {
        "\(host) cannot be resolved; check the name and this host's resolver"
    }

    /// The resolver needs a socket, and does not say so when there is none.
    private static var isOutOfDescriptors: Bool {
        let probe = dup(0)
        if probe >= 0 { close(probe) }
        return probe < 0 && (errno == EMFILE || errno == ENFILE)
    }

    /// Whether a failure of TLS is an https proxy's: no tunnel to the server has come about yet.
    private static func isOfProxy(_ task: TransferTask) -> Bool {
        task.configuration.proxy?.lowercased().hasPrefix("https:") == true
            && ccurl_get_long(task.easy.raw, CURLINFO_HTTP_CONNECTCODE) != 200
    }

    private static func explain(_ task: TransferTask, _ code: CURLcode, _ systemError: Int32) -> (ErrorCode, String) {
        let target = Authority(task.request.url)
        let place = target.map { "\($0.host):\($0.port)" } ?? "the server"
        let hasProxy = task.configuration.proxy != nil
        // libcurl does not always find words of its own.
        let said = task.errorMessage
        let words = said.isEmpty ? String(cString: curl_easy_strerror(code)) : said
        let reason = systemError != 0 ? String(cString: strerror(systemError)) : words
        if wantsCertificate(task), !isOfProxy(task) {
            return (.tls, "\(place) wants another certificate of a client than it was shown, if any: see --client-cert")
        }
        switch code {
        case CURLE_OK, CURLE_GOT_NOTHING:
            return (.incomplete, "\(place) closed the connection without a response")
        case CURLE_UNSUPPORTED_PROTOCOL, CURLE_URL_MALFORMAT:
            return task.isConnected
                ? (.badResponse, "\(place) does not speak HTTP")
                : (.badJob, "the URL is not valid, or neither http nor https")
        case CURLE_COULDNT_RESOLVE_PROXY: return (.proxy, "the proxy's name cannot be resolved")
        case CURLE_COULDNT_RESOLVE_HOST where isOutOfDescriptors:
            return (.localLimit, "this worker is out of file descriptors: raise its limits or lower --slots")
        case CURLE_COULDNT_RESOLVE_HOST:
            return (.dns, unresolvedMessage(target?.host ?? "the host"))
        case CURLE_COULDNT_CONNECT:
            return hasProxy
                ? (.proxy, "the proxy cannot be connected to: \(reason)")
                : (.connect, "\(place) cannot be connected to: \(reason)")
        case CURLE_PROXY: return (.proxy, "the proxy refused: \(task.errorMessage)")
        case CURLE_OPERATION_TIMEDOUT:
            let limit = task.request.connectTimeout.components.seconds
            return ccurl_get_offset(task.easy.raw, CURLINFO_NAMELOOKUP_TIME_T) == 0 && target?.isNumeric == false
                ? (.dns, "\(target?.host ?? "the host") was not resolved within \(limit) s")
                : (hasProxy ? .proxy : .connect, "\(place) did not answer within \(limit) s of connecting")
        case CURLE_PEER_FAILED_VERIFICATION where isOfProxy(task), CURLE_SSL_CONNECT_ERROR where isOfProxy(task):
            return (.proxy, "TLS with the proxy failed, --ca adds authorities: \(task.errorMessage)")
        case CURLE_PEER_FAILED_VERIFICATION, CURLE_SSL_CACERT_BADFILE, CURLE_SSL_ISSUER_ERROR,
            CURLE_SSL_INVALIDCERTSTATUS:
            return (.tls, "the certificate of \(place) cannot be trusted: \(task.errorMessage)")
        case CURLE_SSL_CONNECT_ERROR, CURLE_SSL_CIPHER, CURLE_SSL_CERTPROBLEM, CURLE_SSL_ENGINE_INITFAILED:
            return (.tls, "TLS with \(place) failed: \(task.errorMessage)")
        case CURLE_WEIRD_SERVER_REPLY, CURLE_BAD_CONTENT_ENCODING:
            return (.badResponse, "\(place) sent a response that is not HTTP: \(task.errorMessage)")
        case CURLE_HTTP2, CURLE_HTTP2_STREAM:
            return (.incomplete, "\(place) broke the response off: \(task.errorMessage)")
        // libcurl's word for a line that is too long for it.
        case CURLE_OUT_OF_MEMORY where task.isConnected:
            return (.badResponse, "\(place) sent a header line that is longer than 100 KB")
        case CURLE_OUT_OF_MEMORY where hasProxy && !task.sockets.isEmpty:
            return (.proxy, "the proxy sent a header line that is longer than 100 KB")
        case CURLE_OUT_OF_MEMORY: return (.localLimit, "out of memory")
        case CURLE_RECV_ERROR, CURLE_SEND_ERROR, CURLE_PARTIAL_FILE:
            if hasProxy, !task.isConnected { return (.proxy, "the proxy refused: \(task.errorMessage)") }
            if task.errorMessage.contains("chunk"), systemError == 0 {
                return (.badResponse, "\(place) sent a broken chunk: \(task.errorMessage)")
            }
            return (.incomplete, "the connection to \(place) broke: \(reason)")
        default: return (.badResponse, "\(place): \(words)")
        }
    }
}
