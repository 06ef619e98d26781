/// Elements of the list of jobs that are valid, though written in unusual ways. Both readers of the contract must
/// accept them.
package enum ValidElements {
    package static let all: [String] =
        [
            #"{"url":"http://h/"}"#, " \t\r\n{ \"url\" : \"http://h/\" } \n", #"{"\u0075rl":"http:\/\/h\/"}"#,
            #"{"url":"http://h/","max":1,"min":1,"limit":1,"Max_a":1,"xmax_":1,"maximum_a":1,"max\u00a0_a":1}"#,
            #"{"url":"http://h/","headers":[]}"#, #"{"url":"http://h/","headers":{}}"#,
            #"{"url":"http://h/","headers":{"Iffy":"x","X-If-Range":"y"}}"#,
            #"{"url":"http://h/","size":1e2}"#, #"{"url":"http://h/","size":-0}"#, #"{"url":"http://h/","size":1.0}"#,
            #"{"url":"http://h/","size":9007199254740991}"#, #"{"url":"http://h/","delay":1E-400}"#,
            #"{"url":"http://h/","x":123456789012345678901234567890e99999}"#,
            #"{"url":"http://h/","x":[-0.5,1e-05,0.0,0e0]}"#,
            #"{"url":"http://h/","x":"\ud83d\ude00\u0000\/\b\f\n\r\t\"\\"}"#,
            "{\"url\":\"http://h/\",\"x\":\"\u{7f}é中한😀\"}",
            "{\"url\":\"http://h/\",\"é\":1,\"e\u{301}\":2}",
            #"{"url":"http://h/","X":{"a":{"a":1}},"x":[{"a":1},{"a":2}]}"#,
            #"{"url":"http://h/","x":""# + String(repeating: "中", count: 5000) + #""}"#,
            #"{"url":"http://h/","x":""# + String(repeating: #"\""#, count: 8000) + #""}"#,
            "{\"url\":\"http://h/\",\"x\":" + String(repeating: "[", count: 63) + String(repeating: "]", count: 63)
                + "}",
            #"{"url":"http://h/","meta": [ ":", {"meta":"}"} ] ,"x":1}"#,
            #"{"x":{"meta":1},"m\u0065ta":"\"meta\":","url":"http://h/"}"#,
            #"{"url":"http://h/","meta":null}"#, #"{"url":"http://h/","path":"a//b/"}"#, #"{"url":"HTTPS://H/"}"#,
            #"{"url":"http://h/","t":1}"#, #"{"url":"http://h/","t":{"a":[null]}}"#,
            #"{"urls":["http://h/"],"t":""# + String(repeating: "t", count: 99) + #""}"#,
            #"{"url":"http://h/","at":1000000000000}"#, #"{"url":"http://h/","at":99999999999999}"#,
            #"{"url":"http://h/","at":1.763712e12}"#, #"{"url":"http://h/","content_type":"text/html"}"#,
            #"{"url":"http://h/","content_type":"text/html ; charset=\"utf-8\""}"#,
            #"{"url":"http://h/","content_type":"application/vnd.a+b-c.d_e;"}"#,
            #"{"url":"http://h/","checksum":"md5:0123456789ABCDEF0123456789abcdef"}"#,
            #"{"url":"http://h/","batch":"A.b_c:d-1"}"#,
            #"{"url":"http://h/","batch":{"name":"b","size":1e2,"reply_to":"r"}}"#,
            #"{"url":"http://h/","kind":"download"}"#, #"{"kind":"request","url":"http://h/","method":"HEAD"}"#,
            #"{"kind":"request","url":"http://h/","headers":{"If-Match":"x","Range":"bytes=0-1","X":""}}"#,
            #"{"kind":"request","url":"http://h/","id":"a","json":null}"#,
            #"{"kind":"request","url":"http://h/","id":"a","json":{ "a": [1.0, {"json":"}"}] },"idempotent":true}"#,
            #"{"kind":"request","url":"http://h/","id":"a","form":{"":"","a b":"c\u0000","n":1e2,"t":true},"expect":[200]}"#,
            #"{"kind":"request","url":"http://h/","id":"a","form":[],"query":{"q":"é"}}"#,
            #"{"kind":"request","url":"http://h/","id":"a","body_base64":"AAEC/w=="}"#,
            #"{"kind":"request","url":"http://h/","id":"a","body_base64":""}"#,
            #"{"kind":"upload","url":"http://h/","file":"a/b.bin","method":"POST","content_digest":"sha-256"}"#,
            #"{"kind":"upload","url":"http://h/","file":"a","protocol":"tus"}"#,
            #"{"kind":"upload","url":"http://h/","files":[{"file":"a"}],"form":{"a":1},"each":false,"expect":[200]}"#,
            #"{"kind":"upload","url":"http://h/","files":[{"type":"a/b","file":"é/a","name":"n\"","filename":"中"},{"file":"b"}]}"#,
            #"{"kind":"upload","url":"http://h/","files":[{"file":"a"},{"file":"a"}],"each":true,"idempotent":false}"#,
            #"{"kind":"request","url":"http://h/","expect":[100,"200-299",599,"404-400"],"max_response":1048576}"#,
        ] + urls.map { #"{"url":"http://\#($0)/"}"# }

    private static let urls = [
        "u:p@ss@h", "a:b@c:d@h:80", "@h", "u@@h", "u:@h", "%zz:%@h", "u:%0@h", "0.0.0.0", "0x7g.example",
        "0x7f.example",
        "0xa.b-0x", "[fe80::1%250123456789abcde]", "[fe80::1%25]", "[fe80::1%2]",
        "h:", "h:1", "h:65535", "h:00080", "u@h", "u:p@h:80", "a@b@h", "h.", "a_b-c.d", "1.2.3.4", "1.2.3.4.",
        "255.255.255.255:1",
        "1a", "1.2.3.4a", "[::]", "[::1]:8080", "[1::]", "[1:2:3:4:5:6:7:8]", "[::ffff:1.2.3.4]", "[fe80::1%25eth0]",
        "[1:2:3:4:5:6:1.2.3.4]", "bücher.example", "中.example", "xn--bcher-kva.example",
        // To Swift, a "." or ":" and a combining mark after it are one character.
        "BÜCHER.example:8080", "u:ü@bücher.example.", "e\u{301}.\u{301}x", "пример.рф", "日本語。jp", "😀.example:443",
        "a.\u{301}:\u{301}@b\u{301}", String(repeating: "中", count: 84),
    ]
}
