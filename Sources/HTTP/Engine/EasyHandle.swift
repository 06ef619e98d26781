import CHaulCurl
import HaulContract
import HaulExecutors

/// libcurl's handle of one transfer. Later transfers reuse it, with what libcurl has allocated for it.
final class EasyHandle {
    let raw: UnsafeMutableRawPointer
    private let errorText = UnsafeMutablePointer<CChar>.allocate(capacity: Int(CURL_ERROR_SIZE))
    private var headers: UnsafeMutablePointer<curl_slist>?
    private var pinned: UnsafeMutablePointer<curl_slist>?
    private var resolved: UnsafeMutablePointer<curl_slist>?
    /// The size of the receive buffer in bytes.
    private(set) var bufferSize = 0
    private(set) var offersHTTP2 = false

    init?() {
        guard let raw = curl_easy_init() else { return nil }
        self.raw = raw
    }

    deinit {
        curl_easy_cleanup(raw)
        freeLists()
        errorText.deallocate()
    }

    /// libcurl's message about the failure.
    var errorMessage: String { String(cString: errorText) }

    /// The errno of the last failure, 0 if there was none.
    var systemError: Int32 { Int32(ccurl_get_long(raw, CURLINFO_OS_ERRNO)) }

    /// Clears everything of the last transfer. Connections belong to the multi handle and stay.
    func reset() {
        curl_easy_reset(raw)
        freeLists()
    }

    private func freeLists() {
        curl_slist_free_all(headers)
        curl_slist_free_all(pinned)
        curl_slist_free_all(resolved)
        (headers, pinned, resolved) = (nil, nil, nil)
    }

    /// Sets all options that `request` needs.
    ///
    /// - Throws: `bad_job` for a header field that cannot be sent; `local_limit` if libcurl refuses an option.
    func configure(
        _ request: HTTPRequest, _ configuration: TransferEngine.Configuration, bufferSize: Int, offeringHTTP2: Bool
    ) throws(TransferError) {
        (self.bufferSize, offersHTTP2) = (bufferSize, offeringHTTP2)
        errorText[0] = 0
        ccurl_set_pointer(raw, CURLOPT_ERRORBUFFER, errorText)
        try set(CURLOPT_PROTOCOLS_STR, "http,https")
        try set(CURLOPT_URL, request.url)
        set(CURLOPT_NOSIGNAL, 1)
        // Otherwise a resolver thread that hangs would be joined, on the loop's thread.
        set(CURLOPT_QUICK_EXIT, 1)
        // A paused HTTP/2 stream buffers up to 32 MiB, so HTTP/2 is offered only to servers that speak nothing else.
        set(CURLOPT_HTTP_VERSION, offeringHTTP2 ? CURL_HTTP_VERSION_2TLS : CURL_HTTP_VERSION_1_1)
        set(CURLOPT_BUFFERSIZE, bufferSize)
        // 0 would mean libcurl's own default.
        set(CURLOPT_CONNECTTIMEOUT_MS, max(1, request.connectTimeout.milliseconds))
        set(CURLOPT_TCP_KEEPALIVE, 1)
        set(CURLOPT_SUPPRESS_CONNECT_HEADERS, 1)
        // Empty, not unset: if it is unset, the environment decides.
        try set(CURLOPT_PROXY, configuration.proxy ?? "")
        try set(CURLOPT_NOPROXY, "")
        if let agent = configuration.userAgent { try set(CURLOPT_USERAGENT, agent) }
        if let file = configuration.certificateAuthorities {
            // The system's directory is used beside the file. An https proxy is verified like a server.
            for option in [CURLOPT_CAINFO, CURLOPT_PROXY_CAINFO] { try set(option, file) }
            for option in [CURLOPT_CAPATH, CURLOPT_PROXY_CAPATH] { try set(option, "/etc/ssl/certs") }
        }
        if let trusted = configuration.trusted {
            // Certificates that libcurl read before `trusted` are then too old. 0 means that it keeps none.
            set(CURLOPT_CA_CACHE_TIMEOUT, Int((monotonicNanoseconds() - trusted) / 1_000_000_000))
        }
        if let certificate = configuration.clientCertificate, certificate.isFor(request.url) {
            try set(CURLOPT_SSLCERT, certificate.file)
            try set(CURLOPT_SSLKEY, certificate.key ?? certificate.file)
        }
        try setNetwork(configuration)
        try setMethod(request)
        for field in request.headers { try addHeader(field.name, field.value) }
        ccurl_set_pointer(raw, CURLOPT_HTTPHEADER, headers)
        for entry in configuration.addresses {
            guard let list = curl_slist_append(resolved, entry) else { throw Self.outOfMemory }
            resolved = list
        }
        ccurl_set_pointer(raw, CURLOPT_RESOLVE, resolved)
    }

    /// Settings that only commands of a person have.
    private func setNetwork(_ configuration: TransferEngine.Configuration) throws(TransferError) {
        switch configuration.addressFamily {
        case .v4?: set(CURLOPT_IPRESOLVE, Int(CURL_IPRESOLVE_V4))
        case .v6?: set(CURLOPT_IPRESOLVE, Int(CURL_IPRESOLVE_V6))
        case nil: break
        }
        if let interface = configuration.interface { try set(CURLOPT_INTERFACE, interface) }
        if let socket = configuration.unixSocket { try set(CURLOPT_UNIX_SOCKET_PATH, socket) }
        if let pin = configuration.pin {
            try set(CURLOPT_PINNEDPUBLICKEY, pin)
            set(CURLOPT_SSL_VERIFYPEER, 0)
            set(CURLOPT_SSL_VERIFYHOST, 0)
        }
        for entry in configuration.connectTo {
            guard let list = curl_slist_append(pinned, entry) else { throw Self.outOfMemory }
            pinned = list
        }
        if pinned != nil { ccurl_set_pointer(raw, CURLOPT_CONNECT_TO, pinned) }
    }

    /// Closes the connection when the transfer ends. Otherwise the rest of an HTTP/2 stream would precede the next
    /// response, on the same connection.
    func forbidReuse() { set(CURLOPT_FORBID_REUSE, 1) }

    /// Opens a new connection instead of reusing a kept one.
    func requireNewConnection() { set(CURLOPT_FRESH_CONNECT, 1) }

    /// Connects to `address` instead of resolving the URL's host. The host's name is still sent and verified.
    func pin(to address: IPAddress) throws(TransferError) {
        let host = if case .v6 = address { "[\(address)]" } else { "\(address)" }
        guard let list = curl_slist_append(nil, "::\(host):") else { throw Self.outOfMemory }
        pinned = list
        ccurl_set_pointer(raw, CURLOPT_CONNECT_TO, list)
    }

    private func setMethod(_ request: HTTPRequest) throws(TransferError) {
        if request.method == "HEAD" {
            set(CURLOPT_NOBODY, 1)
            return
        }
        if let memory = request.memory { return try setMemory(memory, request) }
        // A server may refuse a POST without a length, even if there is no body (RFC 9110 section 8.6).
        let body = request.body ?? (["POST", "PUT", "PATCH"].contains(request.method) ? .bytes([]) : nil)
        if let body {
            switch body {
            case .bytes(let bytes):
                set(CURLOPT_POST, 1)
                ccurl_set_offset(raw, CURLOPT_POSTFIELDSIZE_LARGE, bytes.count)
                // With a null address, libcurl would ask the read callback for the bytes.
                let code = (bytes + [0]).withUnsafeBytes { buffer in
                    ccurl_set_pointer(
                        raw, CURLOPT_COPYPOSTFIELDS, UnsafeMutableRawPointer(mutating: buffer.baseAddress))
                }
                guard code == CURLE_OK else { throw Self.outOfMemory }
            case .stream(let supply):
                set(CURLOPT_UPLOAD, 1)
                set(CURLOPT_UPLOAD_BUFFERSIZE, 256 << 10)
                ccurl_set_offset(raw, CURLOPT_INFILESIZE_LARGE, supply.length.map { Int($0) } ?? -1)
            }
            // libcurl would add both fields by itself.
            if !request.expectsContinue { try addLine("Expect:") }
            if !request.headers.contains(where: { $0.name.lowercased() == "content-type" }) {
                try addLine("Content-Type:")
            }
        }
        if request.method != "GET" || body != nil { try set(CURLOPT_CUSTOMREQUEST, request.method) }
    }

    /// A body that libcurl reads in place. The request retains the memory for as long as this handle is used for it.
    private func setMemory(_ memory: RequestMemory, _ request: HTTPRequest) throws(TransferError) {
        set(CURLOPT_POST, 1)
        set(CURLOPT_UPLOAD_BUFFERSIZE, 256 << 10)
        ccurl_set_offset(raw, CURLOPT_POSTFIELDSIZE_LARGE, memory.bytes.count)
        ccurl_set_pointer(raw, CURLOPT_POSTFIELDS, UnsafeMutableRawPointer(mutating: memory.bytes.baseAddress))
        // libcurl would add both fields by itself.
        try addLine("Expect:")
        if !request.headers.contains(where: { $0.name.lowercased() == "content-type" }) { try addLine("Content-Type:") }
        try set(CURLOPT_CUSTOMREQUEST, request.method)
    }

    private func addHeader(_ name: String, _ value: String) throws(TransferError) {
        guard !name.isEmpty, !name.utf8.contains(where: { $0 <= 0x20 || $0 == 0x3A || $0 >= 0x7F }),
            !value.utf8.contains(where: { $0 < 0x20 && $0 != 0x09 || $0 == 0x7F })
        else {
            throw TransferError(.badJob, "the header \(name.debugDescription) cannot be sent as it is")
        }
        // "Name;" is libcurl's notation for an empty value.
        try addLine(value.isEmpty ? "\(name);" : "\(name): \(value)")
    }

    private func addLine(_ line: String) throws(TransferError) {
        guard let list = curl_slist_append(headers, line) else { throw Self.outOfMemory }
        headers = list
    }

    private func set(_ option: CURLoption, _ value: Int) { ccurl_set_long(raw, option, value) }

    private func set(_ option: CURLoption, _ value: String) throws(TransferError) {
        let code = ccurl_set_string(raw, option, value)
        guard code == CURLE_OK else {
            let reason = String(cString: curl_easy_strerror(code))
            throw TransferError(.localLimit, "libcurl refuses a setting: \(reason)")
        }
    }

    static let outOfMemory = TransferError(.localLimit, "out of memory for a transfer")
}

extension Duration {
    var nanoseconds: UInt64 {
        let (seconds, attoseconds) = components
        return seconds < 0 || attoseconds < 0
            ? 0 : UInt64(seconds) &* 1_000_000_000 + UInt64(attoseconds / 1_000_000_000)
    }
}
