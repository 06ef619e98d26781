import CCurl
import Contract

/// libcurl's errors in the contract's codes, with a sentence that says what to do.
enum CurlFailure {
    static func describe(_ code: CURLcode, _ request: Request) -> Failure {
        let url = MaskedURL.text(request.url)
        let reason = String(cString: curl_easy_strerror(code))
        switch code {
        case CURLE_COULDNT_RESOLVE_HOST:
            return Failure(.dns, "the host of \(url) does not resolve: correct the URL, or look at the resolver")
        case CURLE_COULDNT_CONNECT:
            return Failure(.connect, "no connection to \(url): nobody listens there, or a firewall refuses")
        case CURLE_OPERATION_TIMEDOUT:
            return Failure(
                .connect, "no connection to \(url) within \(request.connectTimeout): the server does not answer")
        case CURLE_COULDNT_RESOLVE_PROXY, CURLE_PROXY: return Failure(.proxy, "the proxy failed: \(reason)")
        case CURLE_PEER_FAILED_VERIFICATION, CURLE_SSL_CACERT_BADFILE, CURLE_SSL_CONNECT_ERROR, CURLE_SSL_CERTPROBLEM,
            CURLE_SSL_CIPHER, CURLE_SSL_ISSUER_ERROR, CURLE_USE_SSL_FAILED:
            return Failure(.tls, "TLS with \(url) failed: \(reason); a private CA is added with --ca")
        case CURLE_PARTIAL_FILE, CURLE_GOT_NOTHING, CURLE_RECV_ERROR, CURLE_SEND_ERROR:
            return Failure(.incomplete, "the connection to \(url) ended too early: \(reason)")
        case CURLE_URL_MALFORMAT, CURLE_UNSUPPORTED_PROTOCOL:
            return Failure(.badJob, "the URL \(url) is not valid: \(reason)")
        default: return Failure(.badResponse, "\(url) answered what is no valid HTTP: \(reason)")
        }
    }
}
