import HaulContract
import Testing

@testable import HaulActivities
@testable import HaulHTTP
@testable import HaulStorage

@Suite struct HTTPValueTests {
    @Test("dates are parsed in the three formats of RFC 9110") func dates() {
        for text in ["Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994"] {
            #expect(HTTPDate.parse(text) == 784_111_777)
        }
        #expect(HTTPDate.parse("Thu, 29 Feb 2024 00:00:00 GMT") == 1_709_164_800)
        for text in ["", "yesterday", "Sun, 06 Foo 1994 08:49:37 GMT", "Sun, 99 Nov 1994 08:49:37 GMT"] {
            #expect(HTTPDate.parse(text) == nil)
        }
    }

    @Test("Content-Range is parsed, and a malformed one is refused") func contentRange() {
        #expect(ContentRange("bytes 0-99/200")?.range == 0..<100)
        #expect(ContentRange("bytes 5-5/*")?.total == nil)
        for text in [
            "", "bytes */200", "bytes 9-5/20", "bytes 0-20/20", "items 0-1/2", "bytes 0-1", "bytes 0-1/2/3",
            "bytes -1-2/3", "bytes 0-99999999999999999999/5",
        ] {
            #expect(ContentRange(text) == nil, "\(text)")
        }
    }

    @Test(
        "the file name of Content-Disposition is parsed as browsers do",
        arguments: [
            ("attachment; filename=\"a b.txt\"", "a b.txt"), ("attachment; filename=a.txt; x=y", "a.txt"),
            ("attachment; filename=\"a\\\"b\"", "a\"b"),
            ("attachment; filename=x; filename*=UTF-8''na%C3%AFve.txt", "naïve.txt"),
            ("attachment; filename*=iso-8859-1''%E9.txt", "é.txt"), ("ATTACHMENT; FileName=\"A\"", "A"),
            // Browsers accept these, although the standard does not.
            ("attachment; filename = \"x y.txt\"", "x y.txt"), ("attachment; filename = x.txt ;a=b", "x.txt"),
            ("filename=\"x.txt\"", "x.txt"), ("filename=x.txt; size=3", "x.txt"),
            ("attachment; filename=\"=?UTF-8?B?w6TDtsO8LnR4dA==?=\"", "äöü.txt"),
            ("attachment; filename=\"=?iso-8859-1?Q?=E4_b?=.txt\"", "ä b.txt"),
            ("attachment; filename=\"=?utf-8?Q?=C3?= =?utf-8?Q?=A4?= =?us-ascii?Q?b?=\"", "äb"),
            ("attachment; filename=\"=?klingon?Q?=E4?=.txt\"", "=?klingon?Q?=E4?=.txt"),
            ("attachment; filename=\"=?UTF-8?B?w6T?=.txt\"", "=?UTF-8?B?w6T?=.txt"),
            ("attachment; filename=\"na%C3%AFve.txt\"", "naïve.txt"), ("attachment; filename=\"50% off\"", "50% off"),
            ("attachment; filename=\"%E9.txt\"", "%E9.txt"), ("attachment; filename=\"%+5.txt\"", "%+5.txt"),
            ("attachment; filename*=UTF-8''%FFx.txt", "\u{FFFD}x.txt"),
        ])
    func disposition(_ header: String, _ name: String) { #expect(ContentDisposition.fileName(header) == name) }

    @Test(
        "a Content-Disposition without a file name gives none",
        arguments: ["", "inline", "attachment; filename*=utf-8", "attachment; name=x"])
    func noDisposition(_ header: String) { #expect(ContentDisposition.fileName(header) == nil) }

    @Test(
        "hostile file names become harmless",
        arguments: [
            ("../../etc/passwd", "passwd"), ("a\\b\\c.exe", "c.exe"), (".htaccess", "htaccess"),
            ("a\u{0}b\n.txt", "ab.txt"),
            ("CON.txt", "_CON.txt"), ("a\u{202E}gpj.exe", "agpj.exe"), (" x. ", "x"), (".haul-x", "haul-x"),
            ("\u{FFFD}.bin", "_.bin"), ("a\u{FFFD}\u{FFFD}", "a__"),
        ])
    func fileNames(_ name: String, _ expected: String) { #expect(FileName.sanitize(name) == expected) }

    @Test("a slash beside a combining or invisible mark still counts as a slash")
    func hiddenSlashes() {
        for mark in ["\u{301}", "\u{70F}", "\u{200D}"] {
            for name in [
                "a\(mark)/../../etc/evil", "a/\(mark)../..\(mark)/\(mark)evil", ".\(mark)./evil", "a\\\(mark)evil",
            ] {
                let safe = FileName.sanitize(name)
                #expect(safe?.utf8.contains { $0 == UInt8(ascii: "/") || $0 == UInt8(ascii: "\\") } == false)
                #expect(safe?.utf8.first != UInt8(ascii: "."))
            }
            #expect(WebURL("http://h/a\(mark)/b\(mark)/")?.lastComponent == "")
            #expect(WebURL("http://good@\(mark)evil/")?.host.hasPrefix("good") != true)
        }
    }

    @Test("a sanitized name stays the same when it is sanitized again") func idempotent() {
        for name in [
            String(repeating: "a", count: 254) + " b",
            String(repeating: "a", count: 254) + ". .b" + String(repeating: "c", count: 80),
            "a" + String(repeating: "\u{301}", count: 300), "b." + String(repeating: "\u{301}", count: 300),
        ] {
            let safe = FileName.sanitize(name)
            #expect((1...255).contains(safe?.utf8.count ?? 0))
            #expect(safe.flatMap(FileName.sanitize) == safe)
            let numbered = safe.map { FileName.numbered($0, 7) }
            #expect(numbered?.contains(" (7)") == true && numbered?.utf8.count ?? 256 <= 255)
        }
    }

    @Test("a name with no usable character is refused, and a long one is shortened") func fileNameBounds() {
        for name in ["", "..", "/", "...", "\u{1}"] { #expect(FileName.sanitize(name) == nil) }
        let long = FileName.sanitize(String(repeating: "é", count: 300) + ".tar")
        #expect(long?.utf8.count ?? 0 <= 255 && long?.hasSuffix(".tar") == true)
        #expect(FileName.numbered("a.tar", 2) == "a (2).tar")
    }

    @Test(
        "references are resolved as in RFC 3986",
        arguments: [
            ("c", "http://h/a/c"), ("/c", "http://h/c"), ("../c", "http://h/c"), ("?x", "http://h/a/b?x"),
            ("//k/c", "http://k/c"),
            ("https://k:1/c?d#e", "https://k:1/c?d"), ("./../../c/./d/..", "http://h/c/"), ("", "http://h/a/b?q"),
        ])
    func references(_ reference: String, _ expected: String) {
        #expect(WebURL("http://h/a/b?q")?.resolve(reference)?.unmasked == expected)
    }

    @Test("a URL in a message has neither credentials nor a query, even within another value") func described() {
        let url = WebURL("https://me:password@h:8/a?sig=s")!
        for text in ["\(url)", String(reflecting: url), "\([url])", "\(Optional(url) as Any)"] {
            #expect(text.contains("https://h:8/a?[masked]") && !text.contains("password") && !text.contains("sig"))
        }
    }

    @Test("other schemes are not resolved, and origins compare with default ports") func origins() {
        let url = WebURL("http://u:p@H:80/a")!
        for text in ["ftp://h/", "javascript:x", "file:///etc/passwd"] { #expect(url.resolve(text) == nil) }
        #expect(url.hasSameOrigin(as: WebURL("http://h/b")!))
        #expect(!url.hasSameOrigin(as: WebURL("https://h/b")!))
        #expect(!url.hasSameOrigin(as: WebURL("http://h:81/b")!))
    }

    @Test(
        "an international host is converted to its DNS form, in any notation",
        arguments: [
            ("http://b\u{FC}cher.example/a", "xn--bcher-kva.example"),
            ("http://bu\u{308}cher.example/", "xn--bcher-kva.example"),
            ("http://B%C3%9CCHER.example:81/", "xn--bcher-kva.example"),
            ("https://u:p@\u{4F8B}\u{3048}.\u{30C6}\u{30B9}\u{30C8}?q", "xn--r8jz45g.xn--zckzah"),
            ("http://127\u{3002}0\u{3002}0\u{3002}1/", "127.0.0.1"),
        ])
    func internationalHosts(_ text: String, _ host: String) {
        let url = WebURL(text)
        #expect(url?.host == host)
        #expect(url?.hostAndPort.hasPrefix(host + ":") == true)
        #expect(url?.unmasked.contains(host) == true)
        #expect(url.flatMap { WebURL($0.unmasked) } == url)
        #expect(WebURL("http://h/")?.resolve(text)?.host == host)
    }

    @Test(
        "characters that normalize to delimiters never move the end of a host",
        arguments: ["\u{FF0F}", "\u{FF20}", "%2F", "%40", "%00"])
    func disguisedHosts(_ character: String) { #expect(WebURL("http://good.example\(character).evil.example/") == nil) }

    @Test("Retry-After is obeyed and capped") func retryAfter() {
        #expect(RetryPolicy.retryAfter("7", now: 0) == .seconds(7))
        #expect(RetryPolicy.retryAfter("99999", now: 0) == .seconds(99999))
        #expect(Failure(.http(503), "", retryAfter: .seconds(99999)).retryAfter == .seconds(3600))
        #expect(RetryPolicy.retryAfter("Sun, 06 Nov 1994 08:49:37 GMT", now: 784_111_770) == .seconds(7))
        #expect(RetryPolicy.retryAfter("99999999999999999999", now: 0) == .seconds(1 << 32))
        for text in ["soon", "", "9e9"] { #expect(RetryPolicy.retryAfter(text, now: 0) == nil) }
    }
}

@Suite struct ResponseDecisionTests {
    static let entity = Entity(etag: "\"v1\"", total: 100)

    private func decision(
        _ status: Int, _ headers: [(String, String)], of entity: Entity = entity, end: Int64? = nil,
        ifRange: Bool = true, isProven: Bool = false
    ) -> ResponseDecision {
        decision(status, headers, .part(position: 40, end: end, of: entity, ifRange: ifRange), isProven: isProven)
    }

    private func decision(
        _ status: Int, _ headers: [(String, String)], _ kind: ResponseExpectation.Kind, isProven: Bool = false
    ) -> ResponseDecision {
        let head = ResponseHead(
            status: status, headers: HeaderFields(headers.map { HeaderField($0.0, $0.1) }), url: "http://h/")
        return ResponseExpectation(kind: kind, isProven: isProven).decision(on: head)
    }

    @Test("a Retry-After date is relative to the server's own clock") func retryAfterDate() {
        let decision = decision(
            503, [("retry-after", "Sun, 06 Nov 1994 08:49:37 GMT"), ("date", "Sun, 06 Nov 1994 08:49:30 GMT")])
        guard case .fail(let failure) = decision else { return #expect(Bool(false), "\(decision)") }
        #expect(failure.retryAfter == .seconds(7))
    }

    @Test("a 206 of the same entity from the requested offset is accepted") func accepted() {
        let good = [("content-range", "bytes 40-99/100"), ("etag", "\"v1\"")]
        #expect(decision(206, good) == .takePart(at: 40, length: 60))
        #expect(
            decision(206, [("content-range", "bytes 40-69/100"), ("etag", "\"v1\"")]) == .takePart(at: 40, length: 30))
    }

    @Test(
        "any other 206 makes the download start over",
        arguments: [
            [("content-range", "bytes 41-99/100"), ("etag", "\"v1\"")],
            [("content-range", "bytes 40-99/101"), ("etag", "\"v1\"")],
            [("content-range", "bytes 40-99/*"), ("etag", "\"v1\"")],
            [("content-range", "bytes 40-99/100"), ("etag", "\"v2\"")],
            [("etag", "\"v1\"")],
            [("content-range", "bytes 40-99/100"), ("etag", "\"v1\""), ("content-encoding", "gzip")],
        ])
    func refused(_ headers: [(String, String)]) {
        guard case .restart = decision(206, headers) else { return #expect(Bool(false)) }
    }

    private static let date = "Sun, 06 Nov 1994 08:49:37 GMT"
    private static let laterDate = "Sun, 06 Nov 1994 08:49:38 GMT"

    @Test(
        "a 206 without a validator, or with contradictory ones, is not joined",
        arguments: [
            (Entity(etag: "\"v1\"", total: 100), []),
            (Entity(etag: "\"v1\"", total: 100), [("ETag", "\"v1\""), ("ETag", "\"v2\"")]),
            (Entity(etag: "\"v1\"", total: 100), [("ETag", "\"v2\""), ("ETag", "\"v1\"")]),
            (
                Entity(etag: "\"v1\"", total: 100),
                [("ETag", "\"v1\""), ("Last-Modified", date), ("Last-Modified", laterDate)]
            ),
            (Entity(lastModified: date, lastModifiedIsStrong: true, total: 100), []),
            (
                Entity(lastModified: date, lastModifiedIsStrong: true, total: 100),
                [("Last-Modified", date), ("Last-Modified", laterDate)]
            ),
        ])
    func unversioned(_ entity: Entity, _ headers: [(String, String)]) {
        let range = [("content-range", "bytes 40-99/100")]
        guard case .restartWhole = decision(206, range + headers, of: entity) else { return #expect(Bool(false)) }
    }

    @Test("a 206 with the same Last-Modified is joined, and with a digest of the whole it needs none")
    func repeatedDate() {
        let entity = Entity(lastModified: Self.date, lastModifiedIsStrong: true, total: 100)
        let range = [("content-range", "bytes 40-99/100")]
        #expect(decision(206, range + [("last-modified", Self.date)], of: entity) == .takePart(at: 40, length: 60))
        #expect(decision(206, range, of: entity, isProven: true) == .takePart(at: 40, length: 60))
        guard case .restart = decision(206, range + [("last-modified", Self.laterDate)], of: entity) else {
            return #expect(Bool(false))
        }
    }

    @Test("contradictory validators, and those that no request can repeat, count as none") func contradictory() {
        for headers in [
            [("etag", "\"a\u{1}b\""), ("last-modified", Self.date)],
            [("last-modified", Self.date + "\u{7f}")],
            [("etag", "\"a\""), ("etag", "\"b\"")],
            [("last-modified", Self.date), ("Last-Modified", Self.laterDate), ("etag", "\"a\"")],
        ] {
            let found = decision(200, headers + [("content-length", "9")], .whole)
            #expect(found == .takeWhole(Entity(total: 9), length: 9))
        }
        let found = decision(200, [("etag", "\"a\""), ("ETag", "\"a\""), ("content-length", "9")], .whole)
        #expect(found == .takeWhole(Entity(etag: "\"a\"", total: 9), length: 9))
    }

    @Test(
        "a GET takes whole files with 200 and 203, other methods with any success that has a body",
        arguments: [200, 201, 202, 203, 204, 205, 206, 207, 226, 300], ["GET", "POST", "PUT"])
    func successes(_ status: Int, _ method: String) {
        let head = ResponseHead(
            status: status, headers: HeaderFields([HeaderField("content-length", "9")]), url: "http://h/",
            method: method)
        let decision = ResponseExpectation(kind: .whole, isProven: false).decision(on: head)
        let isTaken = [200, 203].contains(status) || method != "GET" && [201, 202, 207, 226].contains(status)
        if isTaken {
            #expect(decision == .takeWhole(Entity(total: 9), length: 9))
        } else {
            guard case .fail = decision else { return #expect(Bool(false), "\(decision)") }
        }
    }

    @Test("without a strong validator only a checksum permits joining") func unproven() {
        for weak in [Entity(etag: "W/\"v1\"", total: 100), Entity(lastModified: "x", total: 100), Entity(total: 100)] {
            let headers = [("content-range", "bytes 40-99/100")] + (weak.etag.map { [("etag", $0)] } ?? [])
            guard case .restart = decision(206, headers, of: weak) else { return #expect(Bool(false)) }
            #expect(decision(206, headers, of: weak, isProven: true) == .takePart(at: 40, length: 60))
        }
    }

    @Test("a 304 to If-Range confirms the validator, and the part is requested without If-Range") func notModified() {
        #expect(decision(304, []) == .askWithoutIfRange)
        guard case .fail(let failure) = decision(304, [], ifRange: false) else { return #expect(Bool(false)) }
        #expect(failure.code == .http(304))
    }

    @Test("a 200 of the same entity is requested again without If-Range, and another entity starts over") func whole() {
        #expect(decision(200, [("content-length", "100"), ("etag", "\"v1\"")]) == .askWithoutIfRange)
        guard case .restart = decision(200, [("content-length", "100"), ("etag", "\"v1\"")], ifRange: false),
            case .restart = decision(200, [("content-length", "100"), ("etag", "\"v2\"")]),
            case .restart = decision(416, [])
        else { return #expect(Bool(false)) }
    }

    @Test("an ETag and a date must both match, since an ETag may repeat")
    func repeatedETag() {
        let (old, new) = ("Sun, 06 Nov 1994 08:49:37 GMT", "Sun, 06 Nov 1994 08:49:38 GMT")
        let entity = Entity(etag: "\"v1\"", lastModified: old, total: 100)
        let part = [("content-range", "bytes 40-99/100"), ("etag", "\"v1\"")]
        for isProven in [false, true] {
            let changed = decision(206, part + [("last-modified", new)], of: entity, isProven: isProven)
            guard case .restart = changed else { return #expect(Bool(false), "\(changed)") }
        }
        #expect(decision(206, part + [("last-modified", old)], of: entity) == .takePart(at: 40, length: 60))
        // A 206 need not repeat the date (RFC 9110 section 15.3.7).
        #expect(decision(206, part, of: entity) == .takePart(at: 40, length: 60))
        let whole = [("content-length", "100"), ("etag", "\"v1\"")]
        guard case .restart = decision(200, whole + [("last-modified", new)], of: entity) else {
            return #expect(Bool(false))
        }
    }

    @Test("a 206 with all bytes counts as the whole, and an unrequested part is an error")
    func wholeAsPart() {
        let length = ("content-length", "100")
        let whole = decision(206, [("content-range", "bytes 0-99/100"), length], .whole)
        #expect(whole == .takeWhole(Entity(total: 100), length: 100))
        let others: [[(String, String)]] = [
            [("content-range", "bytes 0-98/100"), ("content-length", "99")], [("content-range", "bytes 0-99/100")],
            [("content-range", "bytes 0-99/*"), length],
            [("content-range", "bytes 1-99/100"), ("content-length", "99")],
            [("content-range", "bytes 0-99/100"), ("content-length", "99")], [length],
            [("content-range", "bytes 0-99/100"), length, ("content-type", "multipart/byteranges; boundary=x")],
        ]
        for headers in others {
            guard case .fail(let failure) = decision(206, headers, .whole) else { return #expect(Bool(false)) }
            #expect(failure.code == .badResponse)
        }
    }

    @Test(
        "an empty ETag counts as absent, because servers without tags send it for every version",
        arguments: ["\"\"", "W/\"\"", ""])
    func emptyTags(_ tag: String) {
        let part = [("content-range", "bytes 40-99/100"), ("content-length", "60"), ("etag", tag)]
        let entity = Entity(
            ResponseHead(status: 200, headers: HeaderFields([HeaderField("ETag", tag)]), url: ""), total: 100)
        #expect(entity.etag == nil && entity.strongValidator == nil)
        for old in [entity, Entity(etag: tag, total: 100)] {
            #expect(!entity.isSame(as: old) && !old.isSame(as: entity))
            let expectation = ResponseExpectation(
                kind: .part(position: 40, end: nil, of: old, ifRange: false), isProven: false)
            let headers = HeaderFields(part.map { HeaderField($0.0, $0.1) })
            let found = expectation.decision(on: ResponseHead(status: 206, headers: headers, url: ""))
            switch found {
            case .restart, .restartWhole: break
            default: Issue.record("\(found)")
            }
        }
    }

    @Test("a weak ETag proves nothing, but a different one shows a change") func weakTags() {
        let date = "Sun, 06 Nov 1994 08:49:37 GMT"
        var (old, new) = (Entity(etag: "W/\"1\"", lastModified: date, lastModifiedIsStrong: true, total: 9), Entity())
        new = old
        #expect(new.isSame(as: old))
        new.etag = "W/\"2\""
        #expect(!new.isSame(as: old))
    }

    @Test("contradictory lengths and error statuses fail with their codes") func failures() {
        let pairs: [(ResponseDecision, ErrorCode)] = [
            (
                decision(206, [("content-range", "bytes 40-99/100"), ("etag", "\"v1\""), ("content-length", "61")]),
                .badResponse
            ),
            (decision(200, [("content-length", "1"), ("content-length", "2")]), .badResponse),
            (decision(404, []), .http(404)), (decision(503, []), .http(503)),
        ]
        for (decision, code) in pairs {
            guard case .fail(let failure) = decision else { return #expect(Bool(false)) }
            #expect(failure.code == code)
        }
    }
}
