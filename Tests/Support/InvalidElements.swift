/// An element of the list of jobs that is not a valid job, and the field that the refusal names. nil: the refusal is
/// about the element itself. Both readers of the contract must agree on each.
package struct InvalidElements: Sendable, CustomStringConvertible {
    package let element: [UInt8]
    package let field: String?
    package var description: String { String(decoding: element.prefix(60), as: UTF8.self) }

    private init(_ element: String, _ field: String?) { self.init(Array(element.utf8), field) }
    private init(_ element: [UInt8], _ field: String?) { (self.element, self.field) = (element, field) }

    /// A job with one more member, or with a text that makes the JSON invalid.
    private static func with(_ text: String) -> [UInt8] { Array(#"{"url":"http://h/","x":"#.utf8) + text.utf8 }
    private static func with(_ byte: UInt8...) -> [UInt8] { with("\"") + byte + Array("\"}".utf8) }

    package static let all = basics + grammar + urls + objects + limits

    /// Unknown fields that may be limits of a later version.
    private static let limits: [InvalidElements] = [
        .init(#"{"url":"http://h/","max_hops":3}"#, "max_hops"), .init(#"{"url":"http://h/","min_":null}"#, "min_"),
        .init(#"{"kind":"request","url":"http://h/","limit_moon":1,"x":1}"#, "limit_moon"),
        .init(#"{"kind":"upload","url":"http://h/","file":"a","min_z":1,"max_y":2,"max_\u00e9":1}"#, "max_y"),
        .init(#"{"id":"a","max_hops":3}"#, "max_hops"), .init(#"{"max_hops":3}"#, "max_hops"),
        // A known field comes first.
        .init(#"{"url":"http://h/","max_hops":3,"retries":-1}"#, "retries"),
        .init(
            #"{"url":"http://h/","max_\#(String(repeating: "é", count: 40))":1}"#,
            "max_" + String(repeating: "é", count: 30) + "…"),
    ]

    private static let basics: [InvalidElements] = [
        .init("not json", nil), .init("", nil), .init("[]", nil), .init("\"x\"", nil), .init("{\"url\":", nil),
        .init("{}", "url"), .init(#"{"path":"a"}"#, "url"), .init(#"{"url":5}"#, "url"), .init(#"{"url":null}"#, "url"),
        .init(#"{"url":"ftp://h/a"}"#, "url"), .init(#"{"url":"file:///etc/passwd"}"#, "url"),
        .init(#"{"url":"http://"}"#, "url"),
        .init(#"{"url":"http:///x"}"#, "url"), .init(#"{"url":"http://h/a\nb"}"#, "url"),
        .init(#"{"url":"http://h/a b"}"#, "url"),
        .init(#"{"urls":[]}"#, "urls"), .init(#"{"urls":["http://h/",1]}"#, "urls"),
        .init(#"{"urls":"http://h/"}"#, "urls"),
        .init(#"{"url":"http://h/","id":"a b"}"#, "id"), .init(#"{"url":"http://h/","id":""}"#, "id"),
        .init(#"{"url":"http://h/","id":"{x}"}"#, "id"), .init(#"{"url":"http://h/","id":7}"#, "id"),
        .init(#"{"url":"http://h/","path":"../a"}"#, "path"), .init(#"{"url":"http://h/","path":"a/../b"}"#, "path"),
        .init(#"{"url":"http://h/","path":"/etc/x"}"#, "path"),
        // To Swift, a "/" and a combining mark after it are one character.
        .init("{\"url\":\"http://h/\",\"path\":\"a/../\u{301}x\"}", "path"),
        .init("{\"url\":\"http://h/\",\"path\":\"/\u{301}etc\"}", "path"),
        .init("{\"url\":\"http://h/\",\"path\":\"a/.haul\u{301}\"}", "path"),
        .init(#"{"url":"http://h/","path":"a\u0000b"}"#, "path"),
        .init(#"{"url":"http://h/","path":"a/.haul-x"}"#, "path"),
        .init(#"{"url":"http://h/","path":".HAUL-STORE"}"#, "path"), .init(#"{"url":"http://h/","path":""}"#, "path"),
        .init(#"{"url":"http://h/","if_exists":"maybe"}"#, "if_exists"),
        .init(#"{"url":"http://h/","checksum":"sha256:12"}"#, "checksum"),
        .init(#"{"url":"http://h/","checksum":"crc:12"}"#, "checksum"),
        .init(#"{"url":"http://h/","size":-1}"#, "size"),
        .init(#"{"url":"http://h/","size":1.5}"#, "size"), .init(#"{"url":"http://h/","size":"1"}"#, "size"),
        .init(#"{"url":"http://h/","connections":17}"#, "connections"),
        .init(#"{"url":"http://h/","retries":true}"#, "retries"),
        .init(#"{"url":"http://h/","method":"get"}"#, "method"),
        .init(#"{"url":"http://h/","method":"HEAD"}"#, "method"),
        .init(#"{"url":"http://h/","headers":{"Range":"x"}}"#, "headers"),
        .init(#"{"url":"http://h/","headers":{"A":"b\r\nC: d"}}"#, "headers"),
        .init(#"{"url":"http://h/","headers":{"A":1}}"#, "headers"),
        .init(#"{"url":"http://h/","body":"x"}"#, "id"), .init(#"{"url":"http://h/","delay":-1}"#, "delay"),
        .init(#"{"url":"http://h/","reply_to":"a b"}"#, "reply_to"), .init(#"{"url":"http://h/","v":2}"#, "v"),
        .init(#"{"url":"http://h/","meta":""# + String(repeating: "m", count: 4096) + #""}"#, "meta"),
        .init(#"{"url":"http://h/","at":1763712000}"#, "at"), .init(#"{"id":"a","at":999999999999}"#, "at"),
        .init(#"{"url":"http://h/","at":1763712000000000}"#, "at"), .init(#"{"url":"http://h/","at":0}"#, "at"),
        .init(#"{"url":"http://h/","at":"now"}"#, "at"), .init(#"{"id":"a","t":1}"#, "t"), .init(#"{"t":1}"#, "t"),
        .init(#"{"url":"http://h/","kind":"upload2"}"#, "kind"), .init(#"{"url":"http://h/","kind":1}"#, "kind"),
        .init(#"{"url":"http://h/","kind":null,"path":"/"}"#, "kind"), .init(#"{"kind":"request"}"#, "url"),
        .init(#"{"kind":"request","urls":["http://h/"]}"#, "urls"),
        .init(#"{"kind":"request","url":"http://h/","path":"a"}"#, "path"),
        .init(#"{"kind":"request","url":"http://h/","connections":1}"#, "connections"),
        .init(#"{"url":"http://h/","json":1,"id":"a"}"#, "json"), .init(#"{"url":"http://h/","query":{}}"#, "query"),
        .init(#"{"kind":"request","url":"http://h/","json":1}"#, "id"),
        .init(#"{"kind":"request","url":"http://h/","id":"a","json":1,"form":{}}"#, "body"),
        .init(#"{"kind":"request","url":"http://h/","id":"a","form":{"a":null}}"#, "form"),
        .init(#"{"kind":"request","url":"http://h/","id":"a","form":["a"]}"#, "form"),
        .init(#"{"kind":"request","url":"http://h/","id":"a","body_base64":"AAEC/w="}"#, "body_base64"),
        .init(#"{"kind":"request","url":"http://h/","id":"a","body_base64":"AAE"}"#, "body_base64"),
        .init(#"{"kind":"request","url":"http://h/","id":"a","body_base64":"AAF="}"#, "body_base64"),
        .init(#"{"kind":"request","url":"http://h/","id":"a","body_base64":"===="}"#, "body_base64"),
        .init(#"{"kind":"request","url":"http://h/","id":"a","body_base64":"AA_-"}"#, "body_base64"),
        .init(#"{"kind":"request","url":"http://h/","query":{"a":{}}}"#, "query"),
        .init(#"{"url":"http://h/","then":{}}"#, "then"), .init(#"{"url":"http://h/","then":[]}"#, "then"),
        .init(#"{"url":"http://h/","then":null}"#, "then"), .init(#"{"url":"http://h/","else":"x"}"#, "else"),
        .init(#"{"url":"http://h/","else":[{"a":1},[]]}"#, "else"),
        .init(#"{"url":"http://h/","else":[{"a":1},null]}"#, "else"),
        .init(#"{"url":"http://h/","then":[[1]]}"#, "then"),
        .init(
            #"{"url":"http://h/","then":[{"a":1},{"a":1},{"a":1},{"a":1},{"a":1},{"a":1},{"a":1},{"a":1},{"a":1}]}"#,
            "then"),
        .init(#"{"id":"a","then":{"url":"http://h/"}}"#, "url"),
        .init(#"{"url":"http://h/","notify":true}"#, "notify"), .init(#"{"url":"http://h/","notify":{}}"#, "notify"),
        .init(#"{"url":"http://h/","notify":null}"#, "notify"), .init(#"{"url":"http://h/","notify":[]}"#, "notify"),
        .init(#"{"url":"http://h/","notify":{"url":"http://h/"}}"#, "notify"),
        .init(#"{"url":"http://h/","notify":{"secret":"s"}}"#, "notify"),
        .init(#"{"url":"http://h/","notify":{"url":"ftp://h/","secret":"s"}}"#, "notify"),
        .init(#"{"url":"http://h/","notify":{"url":"http://h/","secret":"a b"}}"#, "notify"),
        .init(#"{"url":"http://h/","notify":{"url":"http://h/","secret":"s","x":1}}"#, "notify"),
        .init(#"{"url":"http://h/","notify":{"url":"http://h/","secret":"s","events":[]}}"#, "notify"),
        .init(#"{"url":"http://h/","notify":{"url":"http://h/","secret":"s","events":{}}}"#, "notify"),
        .init(#"{"url":"http://h/","notify":{"url":"http://h/","secret":"s","events":["started"]}}"#, "notify"),
        .init(#"{"url":"http://h/","notify":{"url":"http://h/","secret":"s","events":"failed"}}"#, "notify"),
        .init(
            #"{"url":"http://h/","notify":{"url":"http://h/\#(String(repeating: "x", count: 2040))","secret":"s"}}"#,
            "notify"),
        .init(#"{"url":"http://h/","webhook":"s"}"#, "webhook"),
        .init(#"{"kind":"request","url":"http://h/","webhook":""}"#, "webhook"),
        .init(#"{"kind":"request","url":"http://h/","expect":[]}"#, "expect"),
        .init(#"{"kind":"request","url":"http://h/","expect":200}"#, "expect"),
        .init(#"{"kind":"request","url":"http://h/","expect":[200.5]}"#, "expect"),
        .init(#"{"kind":"request","url":"http://h/","expect":[600]}"#, "expect"),
        .init(#"{"kind":"request","url":"http://h/","expect":["2xx"]}"#, "expect"),
        .init(#"{"kind":"request","url":"http://h/","max_response":1048577}"#, "max_response"),
        .init(#"{"kind":"request","url":"http://h/","idempotent":1}"#, "idempotent"),
        .init(#"{"kind":"request","url":"http://h/","headers":{"Host":"x"}}"#, "headers"),
        .init(#"{"kind":"request","url":"http://h/","headers":{"expect":"x"}}"#, "headers"),
        .init(#"{"kind":"upload","url":"http://h/"}"#, "file"), .init(#"{"url":"http://h/","file":"a"}"#, "file"),
        .init(#"{"kind":"upload","file":"a"}"#, "url"),
        .init(#"{"kind":"upload","url":"http://h/","file":"a/"}"#, "file"),
        .init(#"{"kind":"upload","url":"http://h/","file":"../a"}"#, "file"),
        .init(#"{"kind":"upload","url":"http://h/","file":"/etc/passwd"}"#, "file"),
        .init(#"{"kind":"upload","url":"http://h/","file":".haul-store"}"#, "file"),
        .init(#"{"kind":"upload","url":"http://h/","file":"a/.Haul-x"}"#, "file"),
        .init(#"{"kind":"upload","url":"http://h/","file":1}"#, "file"),
        .init(#"{"kind":"upload","url":"http://h/","file":""}"#, "file"),
        .init(#"{"kind":"upload","url":"http://h/","file":["a"]}"#, "file"),
        .init(#"{"kind":"upload","url":"http://h/","file":null}"#, "file"),
        .init(#"{"kind":"upload","url":"http://h/","file":"a\u0000b"}"#, "file"),
        .init(
            #"{"kind":"upload","url":"http://h/","file":"\#(String(repeating: "a", count: 256))"}"#, "file"),
        .init(
            #"{"kind":"upload","url":"http://h/","file":"\#(String(repeating: "a/", count: 2048))a"}"#, "file"),
        .init(#"{"kind":"upload","url":"http://h/","file":"a","files":[{"file":"a"}]}"#, "file"),
        .init(#"{"kind":"upload","url":"http://h/","file":"a","protocol":1}"#, "protocol"),
        .init(#"{"kind":"upload","url":"http://h/","file":"a","content_digest":["sha-256"]}"#, "content_digest"),
        .init(#"{"kind":"upload","url":"http://h/","file":"a","method":7}"#, "method"),
        .init(#"{"kind":"upload","url":"http://h/","file":"a","limit_rate":"1M"}"#, "limit_rate"),
        .init(#"{"kind":"upload","url":"http://h/","file":"a","max_response":-1}"#, "max_response"),
        .init(#"{"kind":"upload","url":"http://h/","file":"a","idempotent":"yes"}"#, "idempotent"),
        .init(#"{"kind":"upload","url":"http://h/","file":"a","expect":200}"#, "expect"),
        .init(#"{"kind":"upload","url":"http://h/","file":"a","checksum":"md5:x"}"#, "checksum"),
        .init(#"{"kind":"upload","url":"http://h/","file":"a","connections":2}"#, "connections"),
        .init(#"{"kind":"upload","url":["http://h/","http://i/"],"file":"a"}"#, "url"),
        .init(#"{"kind":"upload","url":"http://h/","files":[{"file":"a","name":1}]}"#, "files"),
        .init(#"{"kind":"upload","url":"http://h/","files":[{"file":"a"}],"form":{"a":[1]}}"#, "form"),
        .init(#"{"kind":"upload","url":"http://h/","files":[{"file":"a"}],"form":"a"}"#, "form"),
        .init(#"{"kind":"upload","url":"http://h/","file":"a","method":"GET"}"#, "method"),
        .init(#"{"kind":"upload","url":"http://h/","file":"a","body":"x"}"#, "body"),
        .init(#"{"kind":"upload","url":"http://h/","file":"a","path":"x"}"#, "path"),
        .init(#"{"kind":"upload","url":"http://h/","file":"a","fresh_for":1}"#, "fresh_for"),
        .init(#"{"kind":"upload","url":"http://h/","file":"a","each":true}"#, "each"),
        .init(#"{"kind":"upload","url":"http://h/","files":[{"file":"a"}],"each":1}"#, "each"),
        .init(#"{"kind":"upload","url":"http://h/","file":"a","form":{}}"#, "form"),
        .init(#"{"kind":"upload","url":"http://h/","files":[{"file":"a"}],"each":true,"form":{}}"#, "form"),
        .init(#"{"kind":"upload","url":"http://h/","file":"a","protocol":"ftp"}"#, "protocol"),
        .init(#"{"kind":"upload","url":"http://h/","file":"a","protocol":"tus","method":"PUT"}"#, "protocol"),
        .init(#"{"kind":"upload","url":"http://h/","files":[{"file":"a"}],"protocol":"tus"}"#, "protocol"),
        .init(
            #"{"kind":"upload","url":"http://h/","file":"a","protocol":"tus","content_digest":"sha-512"}"#, "protocol"),
        .init(#"{"kind":"upload","url":"http://h/","file":"a","content_digest":"md5"}"#, "content_digest"),
        .init(#"{"kind":"upload","url":"http://h/","files":[]}"#, "files"),
        .init(#"{"kind":"upload","url":"http://h/","files":["a"]}"#, "files"),
        .init(#"{"kind":"upload","url":"http://h/","files":{"file":"a"}}"#, "files"),
        .init(#"{"kind":"upload","url":"http://h/","files":[{}]}"#, "files"),
        .init(#"{"kind":"upload","url":"http://h/","files":[[]]}"#, "files"),
        .init(#"{"kind":"upload","url":"http://h/","files":[{"file":"a/"}]}"#, "files"),
        .init(#"{"kind":"upload","url":"http://h/","files":[{"file":"a","name":""}]}"#, "files"),
        .init(#"{"kind":"upload","url":"http://h/","files":[{"file":"a","name":"a\nb"}]}"#, "files"),
        .init(#"{"kind":"upload","url":"http://h/","files":[{"file":"a","type":"x"}]}"#, "files"),
        .init(#"{"kind":"upload","url":"http://h/","files":[{"file":"a","other":"x"}]}"#, "files"),
        .init(
            #"{"kind":"upload","url":"http://h/","files":["#
                + Array(repeating: #"{"file":"a"}"#, count: 65).joined(separator: ",") + "]}", "files"),
        .init(#"{"url":"http://h/","content_type":""}"#, "content_type"),
        .init(#"{"url":"http://h/","batch":""}"#, "batch"), .init(#"{"url":"http://h/","group":"a b"}"#, "group"),
        .init(#"{"url":"http://h/","group":["a"]}"#, "group"), .init(#"{"url":"http://h/","group":""}"#, "group"),
        .init(#"{"url":"http://h/","batch":["b"]}"#, "batch"),
        .init(#"{"url":"http://h/","batch":[]}"#, "batch"),
        .init(#"{"url":"http://h/","batch":{"size":1}}"#, "batch"),
        .init(#"{"url":"http://h/","batch":{"name":"b","size":0}}"#, "batch"),
        .init(#"{"url":"http://h/","batch":{"name":"b","size":100001}}"#, "batch"),
        .init(#"{"url":"http://h/","batch":{"name":"b","size":"1"}}"#, "batch"),
        .init(#"{"url":"http://h/","batch":{"name":"b","size":null}}"#, "batch"),
        .init(#"{"url":"http://h/","batch":{"name":"b","reply_to":"a b"}}"#, "batch"),
        .init(#"{"url":"http://h/","batch":{"name":"b","more":1}}"#, "batch"),
        .init(#"{"url":"http://h/","content_type":"x"}"#, "content_type"),
        .init(#"{"url":"http://h/","content_type":"/"}"#, "content_type"),
        .init(#"{"url":"http://h/","content_type":"a/b/c"}"#, "content_type"),
        .init(#"{"url":"http://h/","content_type":" a/b"}"#, "content_type"),
        .init(#"{"url":"http://h/","content_type":"a/b c"}"#, "content_type"),
        .init(#"{"url":"http://h/","content_type":"a/b;\nc"}"#, "content_type"),
        .init(#"{"url":"http://h/","content_type":"a/é"}"#, "content_type"),
        .init(#"{"url":"http://h/","meta":""# + String(repeating: "m", count: 300_000) + #""}"#, nil),
    ]

    /// Texts that some JSON parsers accept and RFC 8259 does not.
    private static let grammar: [InvalidElements] =
        [
            "NaN}", "nan}", "Infinity}", "-Infinity}", "inf}", "0x1F}", "01}", "-01}", "+1}", "1.}", "-.5}", ".5}",
            "1.e5}",
            "1e}", "- 1}", "1}}", "1}x", "1} {}", "1,}", "[1,]}", "[,1]}", "'a'}", "True}", "nul}", "undefined}",
            "\"a\tb\"}",
            "\"a\nb\"}", "\"a\u{0}b\"}", "1}\u{0}", "1\u{b}}", #""\ud800"}"#, #""\udc00"}"#, #""\ud800\ud800"}"#,
            #""\u12"}"#, #""\x"}"#, "\"a}", "1,\"x\":2}", #"1,"\u0078":2}"#, #"{"a":1,"a":2}}"#,
            "1,\"url\":\"http://h/\"}",
            "1 // one\n}", String(repeating: "[", count: 64) + String(repeating: "]", count: 64) + "}",
            String(repeating: "[],", count: 3000) + "1]}",
        ].map { .init(with($0), nil) } + [
            // Invalid UTF-8: Latin-1, a lone byte, overlong forms, a surrogate, a code point above U+10FFFF, a
            // truncated sequence.
            .init(with(0xE9), nil), .init(with(0x80), nil), .init(with(0xC0, 0x80), nil),
            .init(with(0xE0, 0x80, 0x80), nil),
            .init(with(0xED, 0xA0, 0x80), nil), .init(with(0xF4, 0x90, 0x80, 0x80), nil), .init(with(0xF5, 0x80), nil),
            .init(with(0xE4, 0xB8), nil), .init(with(0xF0, 0x80, 0x80, 0x80), nil),
            .init([0xEF, 0xBB, 0xBF] + Array(#"{"url":"http://h/"}"#.utf8), nil),
            .init(#"{"url":"http://h/","size":1e400}"#, "size"),
            .init(#"{"url":"http://h/","size":9007199254740993}"#, "size"),
            .init(#"{"url":"http://h/","delay":1e11}"#, "delay"),
            .init(#"{"url":"http://h/","headers":[[]]}"#, "headers"),
            .init(#"{"url":"http://h/","headers":{"If-Whatever":"x"}}"#, "headers"),
            .init(#"{"url":"http://h/","headers":{"if-":"x"}}"#, "headers"),
            .init(
                #"{"url":"http://h/","headers":{"# + (0...256).map { "\"h\($0)\":\"\"" }.joined(separator: ",") + "}}",
                "headers"),
            .init(#"{"url":"http://h/","headers":{"X Y":"a"}}"#, "headers"),
            .init(#"{"url":"http://h/","headers":{"\u00fc":"a","":"b"}}"#, "headers"),
            .init(#"{"url":"http://h/","headers":{"X Y":"a","Host":"b"}}"#, "headers"),
            .init(#"{"url":"http://h/","headers":{"X Y":"a","If-A":"b"}}"#, "headers"),
            .init(#"{"url":"http://h/","checksum":"md5:x123456789abcdef0123456789abcdef"}"#, "checksum"),
            .init(#"{"url":"http://h/","checksum":"md5:0123456789abcdef0123456789abcd\u00e9"}"#, "checksum"),
            .init(#"{"url":"http://h/","urls":{}}"#, "urls"),
            .init(#"{"url":"http://h/","checksum":":md5:"# + digest, "checksum"),
            .init(#"{"url":"http://h/","meta":[ "# + String(repeating: " ", count: 4096) + "]}", "meta"),
        ]
    private static let digest = #"0123456789abcdef0123456789abcdef"}"#

    /// Objects of buckets, which only a download may name.
    private static let objects: [InvalidElements] =
        [
            "s3://", "s3:///k", "s3://films", "s3://films/", "s3://films?k", "s3://films/?versionId=1", "s3://fi/k",
            "s3://\(String(repeating: "a", count: 64))/k", "s3://-films/k", "s3://.films/k", "s3://fil ms/k",
            "s3://films/a b", "s3://u:p@films/k", "s3://films:80/k", "s3://fïlms/k", "S3://films/k", "s3:/films/k",
            "s3://films/k?versionId=", "s3://films/k?version=1", "s3://films/k?versionId=1&x=2", "s3://films/k#f",
            "s3://films/k?versionId=1#f", "s3://films/k?versionId=1?", "s3://films/k?", "s3://fil%6ds/k",
            "s3://films/\(String(repeating: "k", count: 8192))",
        ].map { .init(#"{"url":"\#($0)"}"#, "url") } + [
            .init(#"{"url":"s3://films/k","kind":"request"}"#, "url"),
            .init(#"{"url":"s3://films/k","kind":"upload","file":"f"}"#, "url"),
            .init(#"{"urls":["http://h/","s3://films"]}"#, "urls"),
            .init(#"{"url":"http://h/","notify":{"url":"s3://films/k","secret":"s"}}"#, "notify"),
        ]

    private static let urls: [InvalidElements] = [
        // IPv4 addresses in unusual notations, and characters that would end a C string.
        "0x7f000001", "0X7F.0X0.0x0.0x1", "1.2.3.0x4", "a.0x", "017.0.0.1", "1.02.3.4", "00.0.0.0", "h.0xfe.",
        "a%00b@h", "u:%00@h", "%00@h", "u:p@%00@h",
        "[fe80::1%0123456789abcdef]", "[fe80::1%250123456789abcdef]",
        "h:0", "h:65536", "h:x", "h:80x", "h:-1", ":80", "@", "u@", "u:p@:80", "[::1", "[::1]x", "[::1]:0", "[]",
        "[1:2]", "[::1::2]",
        "[:::]", "[1:2:3:4:5:6:7:8:9]", "[::12345]", "[::g]", "[::1.2.3]", "[1.2.3.4]", "[::%]", "a..b", ".a", ".",
        "a.b..", "a%41",
        "a\\b", "a;b", "a<b>", "a|b", "256.1.1.1", "1.2.3", "1", "1.2.3.4.5", "0x7f.1", "a*b",
        String(repeating: "a", count: 64), String(repeating: "a.", count: 128),
        // Internationalized names.
        "bücher..example", ".bücher", "。a..b", "bücher.example:0", "bücher:x", "bücher.1", "中.256.1.1.1", "[中::1]",
        "bü cher", "bü%63her", "bü|cher", "b%C3%BCcher.example", String(repeating: "中", count: 85), "ü@",
    ].map { .init(#"{"url":"http://\#($0.replacing("\\", with: "\\\\"))/"}"#, "url") }
}
