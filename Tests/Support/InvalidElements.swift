/// Elements of the jobs list that are no valid job, and the field that the refusal names (nil: the element itself).
/// Both readers of the contract must agree on them.
package struct InvalidElements: Sendable, CustomStringConvertible {
    package let element: String
    package let field: String?
    package var description: String { String(element.prefix(60)) }

    private init(_ element: String, _ field: String?) { (self.element, self.field) = (element, field) }

    package static let all: [InvalidElements] = [
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
        // To Swift a "/" before a combining mark is another character.
        .init("{\"url\":\"http://h/\",\"path\":\"a/../\u{301}x\"}", "path"),
        .init("{\"url\":\"http://h/\",\"path\":\"/\u{301}etc\"}", "path"),
        .init("{\"url\":\"http://h/\",\"path\":\"a/.haul\u{301}\"}", "path"),
        .init(#"{"url":"http://h/","path":"a\u0000b"}"#, "path"),
        .init(#"{"url":"http://h/","path":"a/.haul-x"}"#, "path"), .init(#"{"url":"http://h/","path":""}"#, "path"),
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
        .init(#"{"url":"http://h/","at":"now"}"#, "at"),
        .init(#"{"url":"http://h/","meta":""# + String(repeating: "m", count: 300_000) + #""}"#, nil),
    ]
}
