extension Job {
    /// The job as an element of the `jobs` list. Equal jobs have equal texts. The text is not checked;
    /// ``init(element:)`` checks it.
    public var element: String {
        var object = JSONObject()
        // `id` and `at` come first, because the list `rejected` keeps only the beginning of a long element, and these
        // two identify the push.
        object.set("id", id)
        object.set("at", at)
        if kind != .download { object.set("kind", kind.rawValue) }
        if urls.count == 1 {
            object.set("url", urls[0])
        } else if !urls.isEmpty {
            object.set("urls", json: "[" + urls.map(JSON.quoted).joined(separator: ",") + "]")
        }
        object.set("path", path)
        if ifExists != .reuse { object.set("if_exists", ifExists.rawValue) }
        object.set("fresh_for", json: freshFor?.decimalSeconds)
        object.set("checksum", checksum?.description)
        object.set("size", size)
        object.set("content_type", contentType)
        if method != defaultMethod { object.set("method", method) }
        if !headers.isEmpty {
            var fields = JSONObject()
            for header in headers { fields.set(header.name, header.value) }
            object.set("headers", json: fields.text)
        }
        object.set("body", body)
        if kind != .download { setRequest(in: &object) }
        if kind == .upload { setUpload(in: &object) }
        object.set("connections", connections)
        object.set("limit_rate", limitRate)
        object.set("max_bytes", maxBytes)
        object.set("min_speed", minSpeed)
        object.set("retries", retries)
        object.set("connect_timeout", json: connectTimeout?.decimalSeconds)
        object.set("stall_timeout", json: stallTimeout?.decimalSeconds)
        object.set("delay", json: delay?.decimalSeconds)
        object.set("deadline", json: deadline?.decimalSeconds)
        object.set("reply_to", replyTo)
        object.set("batch", json: batch?.text)
        object.set("group", group)
        object.set("notify", json: notify?.text ?? (isSilent ? "false" : nil))
        for list in StepList.allCases { object.set(list.rawValue, json: Step.json(list.steps(of: self))) }
        object.set("meta", json: meta)
        return object.text
    }

    /// The method that a job has if its element names none.
    private var defaultMethod: String {
        switch kind {
        case .download: return "GET"
        case .request:
            let hasBody = body != nil || request.json != nil || request.bodyBase64 != nil || !request.form.isEmpty
            return hasBody ? "POST" : "GET"
        case .upload: return upload.defaultMethod
        }
    }

    private func setUpload(in object: inout JSONObject) {
        object.set("file", upload.file)
        if !upload.files.isEmpty { object.set("files", json: Upload.json(upload.files)) }
        if upload.isEach { object.set("each", true) }
        object.set("protocol", upload.method?.rawValue)
        object.set("content_digest", upload.contentDigest?.rawValue)
    }

    private func setRequest(in object: inout JSONObject) {
        object.set("json", json: request.json)
        for (name, items) in [("form", request.form), ("query", request.query)] where !items.isEmpty {
            object.set(name, json: items.reduce(into: JSONObject()) { $0.set($1.name, $1.value) }.text)
        }
        object.set("body_base64", request.bodyBase64)
        if !request.expect.isEmpty {
            let ranges = request.expect.map {
                $0.count == 1 ? "\($0.lowerBound)" : "\"\($0.lowerBound)-\($0.upperBound)\""
            }
            object.set("expect", json: "[" + ranges.joined(separator: ",") + "]")
        }
        object.set("max_response", request.maxResponse.map { Int64($0) })
        if request.isIdempotent { object.set("idempotent", true) }
        if kind == .request { object.set("webhook", request.webhook) }
    }
}

extension Duration {
    /// The seconds as a JSON number, without rounding.
    fileprivate var decimalSeconds: String {
        let (seconds, attoseconds) = (components.seconds, components.attoseconds)
        let sign = seconds < 0 || attoseconds < 0 ? "-" : ""
        guard attoseconds != 0 else { return sign + String(seconds.magnitude) }
        let digits = String(attoseconds.magnitude)
        var fraction = String(repeating: "0", count: 18 - digits.count) + digits
        while fraction.hasSuffix("0") { fraction.removeLast() }
        return "\(sign)\(seconds.magnitude).\(fraction)"
    }
}
