import Foundation
import Glibc
import HaulTestSupport
import Testing

/// `haul call` without a queue: this process sends the requests.
@Suite(.timeLimit(.minutes(2))) struct DirectCallTests {
    private let directory = TemporaryDirectory()

    private func call(
        _ arguments: String..., input: String = "", environment: [String: String] = [:]
    ) async throws -> (status: Int32, out: String, err: String) {
        let clean = ["PATH": "/nowhere", "no_proxy": "", "HAUL_REDIS": "redis://127.0.0.1:1"]
        let haul = try #require(ChildProcess.path(of: "haul"))
        let process = try ChildProcess(
            haul, ["call"] + arguments, environment: clean.merging(environment) { $1 }, input: input)
        let status = try await process.wait()
        return (status, process.standardOutput, process.standardError)
    }

    /// Answers with the request's method, path and body.
    private static func echo(_ request: OriginRequest) -> OriginReply {
        OriginReply(
            headers: [("X-Method", request.method), ("Content-Type", "text/plain")],
            body: Array("\(request.method) \(request.path) ".utf8) + request.body.bytes)
    }

    @Test("curl's options mean the same, and the response is standard output") func options() async throws {
        let origin = try OriginServer { Self.echo($0) }
        #expect(try await call(origin.url("/a")).out == "GET /a ")
        let post = try await call("-d", "a=1", "-d", "@-", "-u", "me:p@ss", "-sSL", origin.url("/b"), input: "b=2")
        #expect(post.status == 0 && post.out == "POST /b a=1&b=2" && post.err.isEmpty, "\(post)")
        var seen = try #require(origin.requests.last)
        #expect(seen.headers["content-type"] == "application/x-www-form-urlencoded")
        #expect(seen.headers["authorization"] == "Basic bWU6cEBzcw==")
        #expect(try await call("--json", "{\"a\": 1}", "-X", "PUT", origin.url("/c")).out == "PUT /c {\"a\": 1}")
        #expect(origin.requests.last?.headers["content-type"] == "application/json")
        let signed = try await call("--bearer", "t", "-b", "a=1; b=2", "-H", "X-A: b", "-A", "Mine/1", origin.url("/d"))
        #expect(signed.status == 0)
        seen = try #require(origin.requests.last)
        #expect(seen.headers["authorization"] == "Bearer t" && seen.headers["cookie"] == "a=1; b=2")
        #expect(seen.headers["x-a"] == "b" && seen.headers["user-agent"] == "Mine/1")
        #expect(try await call("-G", "-d", "q=1", "-d", "r=2", origin.url("/e?p=0")).out == "GET /e?p=0&q=1&r=2 ")
        #expect(try await call("-G", "-d", "q=1", origin.url("/e#top?")).out == "GET /e?q=1 ")
        #expect(try await call("--query", "q=a b", origin.url("/f")).out == "GET /f?q=a+b ")
        let head = try await call("-I", origin.url("/g"))
        #expect(
            head.out.hasPrefix("HTTP/1.1 200\n") && head.out.contains("X-Method: HEAD\n") && head.out.hasSuffix("\n\n"))
        let whole = try await call("-i", origin.url("/h"))
        #expect(whole.out.hasPrefix("HTTP/1.1 200\n") && whole.out.hasSuffix("\n\nGET /h "))
        #expect(try await call("-r", "0-3", origin.url("/i")).status == 0)
        #expect(origin.requests.last?.headers["range"] == "bytes=0-3")
        #expect(try await call(origin.url("/j"), origin.url("/k")).out == "GET /j GET /k ")
    }

    @Test("bodies and header fields are made as curl makes them") func bodies() async throws {
        let origin = try OriginServer { Self.echo($0) }
        let file = directory.file("lines")
        try Data("a=1\r\nb\0=2\n".utf8).write(to: URL(filePath: file))
        for (arguments, body) in [
            (["-d", "@\(file)"], "a=1b=2"), (["--data-binary", "@\(file)"], "a=1\r\nb\0=2\n"),
            (["--json", "{\"a\":", "--json", "1}"], "{\"a\":1}"), (["--data-urlencode", "=a b"], "a+b"),
            (["--data-urlencode", "a b&", "--data-urlencode", "n=ü"], "a+b%26&n=%C3%BC"),
            (["--data-urlencode", "n@\(file)"], "n=a%3D1%0D%0Ab%00%3D2%0A"),
        ] {
            let process = try ChildProcess("haul", ["call"] + arguments + [origin.url("/a")])
            #expect(try await process.wait() == 0, "\(arguments): \(process.standardError)")
            #expect(String(decoding: try #require(origin.requests.last).body.bytes, as: UTF8.self) == body)
        }
        #expect(try await call("-G", "--data-urlencode", "=a b", origin.url("/q")).out == "GET /q?a%20b ")
        let nested = origin.url("/q").replacing("http://", with: "") + "?next=http://h/"
        #expect(try await call(nested).err.contains("https://"), "a URL in the query names no scheme of the whole")
        #expect(try await call("-G", "-d", "@\(file)", origin.url("/q")).out == "GET /q?a=1b=2 ")
        let twice = try await call("-G", "-d", "@-", origin.url("/q"), origin.url("/r"), input: "a=1\n")
        #expect(twice.out == "GET /q?a=1 GET /r?a=1 ", "\(twice)")
        #expect(try await call("-H", "X-A:", "-H", "X-B;", origin.url("/h")).status == 0)
        let seen = try #require(origin.requests.last)
        #expect(seen.headers["x-a"] == nil && seen.headers["x-b"] == "")
        _ = try await call("-F", "a=b;c;type=text/x;charset=utf-8", "-F", "d=e;f", origin.url("/form"))
        let form = String(decoding: try #require(origin.requests.last).body.bytes, as: UTF8.self)
        #expect(form.contains("name=\"a\"\r\nContent-Type: text/x;charset=utf-8\r\n\r\nb;c\r\n"), "\(form)")
        #expect(form.contains("name=\"d\"\r\n\r\ne;f\r\n"), "\(form)")
        for (arguments, words) in [
            (["-d", "x", "-I"], "such a request has no body"), (["-m", "nan"], "--max-time must be from 0.1"),
            (["-m", "1e20"], "--max-time must be from 0.1"), (["-m", "0"], "--max-time must be from 0.1"),
            (["-d", "x", "-H", "Content-Type:"], "every request has this field here"),
            (["--json", "{\"a\":1}", "--json", "{\"b\":2}"], "must be JSON"),
            (["-G", "--json", "{}"], "-G sends the texts"), (["-G", "--data-binary", "x"], "-G sends the texts"),
            (["-G", "-F", "a=b"], "-G sends the texts"),
        ] {
            let process = try ChildProcess("haul", ["call"] + arguments + [origin.url("/no")])
            #expect(try await process.wait() == 2, "\(arguments)")
            #expect(process.standardError.contains(words), "\(arguments): \(process.standardError)")
        }
        #expect(origin.requests.allSatisfy { $0.path != "/no" })
    }

    @Test("the exit status shows whether the response is as expected, and its body is printed") func status()
        async throws
    {
        let origin = try OriginServer { request in
            request.path == "/loop"
                ? OriginReply(302, headers: [("Location", "/loop")])
                : OriginReply(404, body: Array("no such thing".utf8))
        }
        let missing = try await call(origin.url("/a"))
        #expect(missing.status == 1 && missing.out == "no such thing" && missing.err.contains("http_404"), "\(missing)")
        #expect(origin.requests.count == 1)
        let silent = try await call("-f", origin.url("/a"))
        #expect(silent.status == 1 && silent.out.isEmpty && silent.err.contains("http_404"))
        #expect(try await call("--expect", "200-299,404", origin.url("/a")).status == 0)
        let head = try await call("-i", origin.url("/a"))
        #expect(head.out.hasPrefix("HTTP/1.1 404\n") && head.out.hasSuffix("\n\nno such thing"))
        #expect(try await call(origin.url("/loop")).err.contains("too_many_redirects"))
        #expect(try await call("http://127.0.0.1:1/").err.contains("connect: "))
        for (arguments, words) in [
            (["-d", "x", "--json", "1", "http://h/"], "only one of"), (["--json", "{", "http://h/"], "must be JSON"),
            (["--direct", "--queue", "q", "http://h/"], "--direct sends from here"),
            (["-o", "a", "-o", "b", "http://h/"], "one file for each URL"),
            (["-o", "a", "-o", "a", "http://h/1", "http://h/2"], "two -o name the same file"),
            (["-w", "%{nothing}", "http://h/"], "%{nothing} is not a variable"),
            (["--queue", "q", "--proxy", "http://p:1", "http://h/"], "--proxy is about connections from here"),
        ] {
            let process = try ChildProcess("haul", ["call"] + arguments)
            #expect(try await process.wait() == 2, "\(arguments)")
            #expect(process.standardError.contains(words), "\(arguments): \(process.standardError)")
        }
    }

    @Test("a response is written as it arrives, into files, and stays out of them if it is an error")
    func files() async throws {
        let latch = Latch()
        let bytes = FileBytes(seed: 7, count: 3 << 20)
        let origin = try OriginServer { request in
            if request.path == "/missing" { return OriginReply(404, body: Array("no such film".utf8)) }
            if request.path == "/empty" { return OriginReply(204) }
            if request.path == "/big" { return OriginReply(body: bytes.all) }
            var reply = OriginReply(body: Array("first second".utf8))
            reply.hold = (5, latch)
            return reply
        }
        let haul = try #require(ChildProcess.path(of: "haul"))
        let stream = try ChildProcess(haul, ["call", origin.url("/stream")])
        try await eventually("the first bytes") { stream.standardOutput == "first" }
        latch.open()
        #expect(try await stream.wait() == 0 && stream.standardOutput == "first second")
        let (one, two) = (directory.file("one"), directory.file("two"))
        #expect(try await call("-o", one, "-o", two, origin.url("/big"), origin.url("/stream")).status == 0)
        #expect(directory.contents("one") == bytes.all && directory.contents("two") == Array("first second".utf8))
        for (options, isPrinted) in [([], true), (["-f"], false)] as [([String], Bool)] {
            for name in ["one", "new"] {
                let arguments = ["call", "-w", "%{http_code}", "-o", directory.file(name)] + options
                let missing = try ChildProcess(haul, arguments + [origin.url("/missing")])
                #expect(try await missing.wait() == 1 && missing.standardOutput == "404", "\(missing.standardError)")
                let error = missing.standardError
                #expect(error.hasPrefix("no such film\nhaul: ") == isPrinted && error.contains("http_404"), "\(error)")
            }
        }
        #expect(directory.contents("one") == bytes.all && directory.contents("new") == nil)
        let (new, head) = (directory.file("new"), directory.file("head"))
        #expect(try await call("-o", new, "-D", head, "http://127.0.0.1:1/").status == 1)
        #expect(directory.contents("new") == nil && directory.contents("head") == nil)
        #expect(try await call("-o", new, "-o", "/no/such/file", origin.url("/big"), origin.url("/big")).status == 2)
        #expect(directory.contents("new") == nil)
        #expect(try await call("-o", new, origin.url("/empty")).status == 0 && directory.contents("new") == [])
        #expect(try await call("-o", "/dev/null", "-w", "%{size_download}", origin.url("/big")).out == "\(3 << 20)")
    }

    @Test("a form sends fields and files, and a body may be larger than a job's") func forms() async throws {
        let origin = try OriginServer { Self.echo($0) }
        let file = directory.file("a.txt")
        try Data("content".utf8).write(to: URL(filePath: file))
        let form = try await call(
            "-F", "name=value", "-F", "up=@\(file);type=text/plain;filename=b.txt", "-F", "text=<\(file)",
            origin.url("/form"))
        #expect(form.status == 0, "\(form.err)")
        let seen = try #require(origin.requests.last)
        let type = try #require(seen.headers["content-type"])
        #expect(type.hasPrefix("multipart/form-data; boundary="))
        let boundary = type.split(separator: "=").last ?? ""
        #expect(
            String(decoding: seen.body.bytes, as: UTF8.self) == """
                --\(boundary)\r
                Content-Disposition: form-data; name="name"\r
                \r
                value\r
                --\(boundary)\r
                Content-Disposition: form-data; name="up"; filename="b.txt"\r
                Content-Type: text/plain\r
                \r
                content\r
                --\(boundary)\r
                Content-Disposition: form-data; name="text"\r
                \r
                content\r
                --\(boundary)--\r

                """)
        let large = directory.file("large")
        try Data(repeating: 65, count: 1 << 20).write(to: URL(filePath: large))
        #expect(try await call("--data-binary", "@\(large)", "-o", "/dev/null", origin.url("/large")).status == 0)
        #expect(origin.requests.last?.body.bytes.count == 1 << 20)
    }

    @Test("-v and --write-out show what happened, and cookies are saved and read again") func records() async throws {
        let origin = try OriginServer { request in
            request.path == "/login"
                ? OriginReply(
                    303, headers: [("Location", "/home"), ("Set-Cookie", "sid=1; Path=/; HttpOnly; Max-Age=60")])
                : OriginReply(
                    headers: [("ETag", "\"e\""), ("Set-Cookie", "old=; Max-Age=0")], body: Array("hello".utf8))
        }
        let jar = directory.file("jar")
        let login = try await call(
            "-v", "-c", jar, "-d", "user=me", "-w",
            "\\n%{http_code} %{num_redirects} %{size_download} %{size_upload} %{content_type}|%header{ETag} %{url_effective}%{stderr}E%%",
            origin.url("/login"))
        #expect(login.out == "hello\n200 1 5 7 |\"e\" \(origin.url("/home"))", "\(login)")
        #expect(login.err.contains("HTTP/1.1 303 from 127.0.0.1:") && login.err.hasSuffix("E%"), "\(login.err)")
        #expect(login.err.contains("redirect (303) to"))
        let text = String(decoding: directory.contents("jar") ?? [], as: UTF8.self)
        #expect(text.contains("#HttpOnly_127.0.0.1\tFALSE\t/\tFALSE\t") && text.contains("\tsid\t1\n"), "\(text)")
        #expect(!text.contains("old"))
        #expect(try await call("-b", jar, origin.url("/home")).status == 0)
        #expect(origin.requests.last?.headers["cookie"] == "sid=1")
    }

    @Test(
        "without --retries nothing is repeated, not even when a kept connection breaks", arguments: ["PUT", "DELETE"])
    func once(_ method: String) async throws {
        let requests = Shared(0)
        let server = RawServer { connection in
            while connection.readRequest() != nil {
                requests.change { $0 += 1 }
                guard requests.value == 1 else { return connection.reset() }
                connection.send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
            }
        }
        defer { server.stop() }
        let result = try await call("-X", method, server.url + "1", server.url + "2")
        #expect(result.status == 1 && requests.value == 2, "\(result)")
    }

    @Test("--max-time ends a request, and a POST is never repeated") func limits() async throws {
        let latch = Latch()
        let origin = try OriginServer { request in
            if request.path == "/slow" { latch.wait() }
            return OriginReply(503, headers: [("Retry-After", "0")])
        }
        let slow = try await call("-m", "0.3", origin.url("/slow"))
        latch.open()
        #expect(slow.status == 1 && slow.err.contains("within the 0.3 s of --max-time"), "\(slow)")
        #expect(try await call("--retries", "2", origin.url("/get")).status == 1)
        #expect(origin.requests.count { $0.path == "/get" } == 3)
        #expect(try await call("-d", "x", "--retries", "2", origin.url("/post")).status == 1)
        #expect(origin.requests.count { $0.path == "/post" } == 1)
    }

    @Test("--write-out prints URLs without the password of -u") func writtenURLs() async throws {
        let origin = try OriginServer { _ in OriginReply(201, headers: [("Location", "/made")]) }
        let call = try await call(
            "-u", "me:password", "-w", "%{url} %{url_effective} %{redirect_url}", origin.url("/a?q=1"))
        #expect(origin.requests.last?.headers["authorization"] != nil)
        #expect(call.out == "\(origin.url("/a?q=1")) \(origin.url("/a?q=1")) \(origin.url("/made"))", "\(call)")
    }

    @Test(
        "cookies and header fields for standard output follow what is there, if that is a file",
        arguments: ["-", "/dev/stdout", "/proc/self/fd/1"])
    func standardOutput(_ name: String) async throws {
        let origin = try OriginServer { _ in
            OriginReply(headers: [("Set-Cookie", "a=1; Path=/")], body: Array("the whole body\n".utf8))
        }
        let haul = try #require(ChildProcess.path(of: "haul"))
        let script = "echo before >\"$2\"; exec \"$0\" call -c \"$3\" -D \"$3\" -o \"$3\" \"$1\" >>\"$2\""
        let call = try ChildProcess(
            "/bin/sh", ["-c", script, haul, origin.url("/a"), directory.file("out"), name],
            environment: ["no_proxy": ""])
        #expect(try await call.wait() == 0, "\(call.standardError)")
        let text = String(decoding: directory.contents("out") ?? [], as: UTF8.self)
        #expect(text.hasPrefix("before\nHTTP/1.1 200\n"), "\(text)")
        let parts = text.components(separatedBy: "\n\nthe whole body\n# Netscape HTTP Cookie File\n")
        #expect(parts.count == 2 && parts[1].contains("\ta\t1"), "\(text)")
    }

    @Test("the header fields go where -D says, wherever the body goes, and share a file with it in order")
    func dumpedHead() async throws {
        let origin = try OriginServer { Self.echo($0) }
        let (body, head) = (directory.file("body"), directory.file("head"))
        let apart = try await call("-D", "-", "-o", body, origin.url("/a"))
        #expect(apart.status == 0 && apart.out.hasPrefix("HTTP/1.1 200\n") && apart.out.hasSuffix("\n\n"), "\(apart)")
        #expect(directory.contents("body") == Array("GET /a ".utf8))
        let reverse = try await call("-D", head, "-o", "-", origin.url("/b"))
        #expect(reverse.out == "GET /b ")
        #expect(String(decoding: directory.contents("head") ?? [], as: UTF8.self) == apart.out)
        // The same file by two names, twice.
        let (one, other) = (directory.file("both"), directory.file("./both"))
        #expect(try await call("-D", one, "-o", other, "-o", one, origin.url("/c"), origin.url("/d")).status == 0)
        let both = String(decoding: directory.contents("both") ?? [], as: UTF8.self)
        #expect(both == apart.out + "GET /c " + apart.out + "GET /d ", "\(both)")
        // The head of -i and that of -D are one where both go.
        #expect(try await call("-i", "-D", "-", origin.url("/e")).out == apart.out + "GET /e ")
    }

    @Test("a response that broke off is requested again, unless a part of it is written", arguments: [0, 5])
    func broken(_ written: Int) async throws {
        let origin = try OriginServer { request in
            var reply = OriginReply(body: Array("0123456789".utf8))
            if request.number == 1 { (reply.cut, reply.end) = (written, .fin) }
            return reply
        }
        let result = try await call("--retries", "2", origin.url("/a"))
        if written == 0 {
            #expect(result.status == 0 && result.out == "0123456789" && origin.requests.count == 2, "\(result)")
        } else {
            #expect(result.status != 0 && result.out == "01234" && origin.requests.count == 1, "\(result)")
            #expect(result.err.contains("a part of the response is written"), "\(result)")
        }
    }
}
