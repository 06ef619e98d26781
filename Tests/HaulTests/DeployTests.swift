import Foundation
import Glibc
import HaulTestSupport
import Testing

/// What is shipped beside the program: scripts, secrets, manifests.
@Suite struct DeployTests {
    private static let deploy = ShippedRoles.repository.appending(path: "deploy").path

    private func read(_ name: String) throws -> String {
        try String(contentsOfFile: Self.deploy + "/" + name, encoding: .utf8)
    }

    @Test("a script waits for the lock of another apt-get, says so, and fails at once for any other reason")
    func locked() async throws {
        let directory = TemporaryDirectory()
        // Stands in for apt-get: it fails like the real one until the file `free` is there.
        let apt = """
            #!/bin/sh
            echo "$@" >>\(directory.file("calls"))
            case $* in *broken*) echo 'E: Unable to locate package broken' >&2; exit 100 ;; esac
            [ -e \(directory.file("free")) ] && exit 0
            echo 'E: Could not get lock /var/lib/apt/lists/lock. It is held by process 1 (apt-get)' >&2
            exit 100
            """
        try apt.write(toFile: directory.file("apt-get"), atomically: true, encoding: .utf8)
        chmod(directory.file("apt-get"), 0o755)
        func run(_ command: String) throws -> ChildProcess {
            let path = "\(directory.path):" + (ProcessInfo.processInfo.environment["PATH"] ?? "")
            return try ChildProcess(
                "bash", ["-c", "set -eu; . \(Self.deploy)/lib/packages.sh; as_root=(); \(command)"],
                environment: ["PATH": path])
        }
        let waiting = try run("wait_for_apt update -qq")
        try await eventually("the message") {
            waiting.standardError.contains("haul: waiting for another apt-get: Could not get lock /var/lib/apt/lists")
        }
        #expect(waiting.isRunning)
        try "".write(toFile: directory.file("free"), atomically: true, encoding: .utf8)
        #expect(try await waiting.wait() == 0)
        let calls = String(decoding: directory.contents("calls") ?? [], as: UTF8.self)
        #expect(calls.contains("DPkg::Lock::Timeout=300 update -qq"), "\(calls)")
        let broken = try run("wait_for_apt install broken")
        #expect(try await broken.wait() == 1)
        #expect(broken.standardError == "E: Unable to locate package broken\n")
    }

    @Test("each container of compose.yaml gets the secret of its own role, and only Redis its ACL file")
    func secrets() throws {
        var mounts: [String: [String]] = [:]
        var service = ""
        let text = try read("compose.yaml")
        let services = try #require(text.firstRange(of: "\nservices:"))
        let end = try #require(text.firstRange(of: "\nnetworks:"))
        for line in text[services.upperBound..<end.lowerBound].split(separator: "\n") {
            if let match = line.wholeMatch(of: #/  ([a-z]+):/#) { service = String(match.1) }
            if let match = line.wholeMatch(of: #/ +- (secret-\w+|people|acl):.*/#) {
                mounts[service, default: []].append(String(match.1))
            }
        }
        mounts["secrets"] = nil
        #expect(
            mounts == [
                "redis": ["acl"], "functions": ["secret-deploy"], "worker": ["secret-worker"], "web": ["secret-web"],
            ])
    }

    @Test("the passwords of compose are made once, and each role's are in a directory of its own")
    func passwords() async throws {
        let directory = TemporaryDirectory()
        func make() async throws -> String {
            let maker = try ChildProcess(
                "python3",
                [
                    Self.deploy + "/compose/passwords.py", "--acl", directory.file("acl"), "--haul",
                    directory.file("haul"), "--template", ShippedRoles.path,
                ])
            #expect(try await maker.wait() == 0, "\(maker.standardError)")
            return maker.standardOutput
        }
        #expect(try await make().contains("The page: user admin, password "))
        let acl = directory.contents("acl/users.acl")
        #expect(try await make() == "")
        #expect(directory.contents("acl/users.acl") == acl)
        for role in ["worker", "web", "deploy", "admin", "producer"] {
            let names = try FileManager.default.contentsOfDirectory(atPath: directory.file("haul/\(role)")).sorted()
            #expect(names == (role == "web" ? ["redis", "users"] : ["redis"]))
        }
        #expect(!String(decoding: acl ?? [], as: UTF8.self).contains("on #"))
        // The page's password costs a guess as much as one that haul web hash-password hashes.
        let hash = try ChildProcess("haul", ["web", "hash-password", "admin"], input: "twelve letters")
        #expect(try await hash.wait() == 0)
        func costs(_ line: String) -> [Substring] { line.split(separator: "$").prefix(4).dropFirst().map { $0 } }
        let users = String(decoding: directory.contents("haul/web/users") ?? [], as: UTF8.self)
        #expect(costs(users) == costs(hash.standardOutput) && costs(users).count == 3, "\(users)")
    }

    @Test("the page warns if everybody can read its users, and takes its names from HAUL_WEB_HOST")
    func page() async throws {
        let (server, directory) = (try await RedisServer(), TemporaryDirectory())
        let (socket, users) = (directory.file("web"), directory.file("users"))
        let hash = try ChildProcess("haul", ["web", "hash-password", "alice"], input: "twelve letters")
        #expect(try await hash.wait() == 0)
        for (mode, isWarned) in [(mode_t(0o644), true), (0o640, false)] {
            try hash.standardOutput.write(toFile: users, atomically: true, encoding: .utf8)
            chmod(users, mode)
            let web = try ChildProcess(
                "haul", ["web", "--listen", "unix:" + socket, "--auth", users],
                environment: ["HAUL_REDIS": server.url, "HAUL_WEB_HOST": "haul.example.org,haul-web"])
            try await eventually("the page") { web.standardError.contains("the page is at") }
            #expect(web.standardError.contains("chmod o-r \(users)") == isWarned, "\(web.standardError)")
            for (name, status) in [("haul.example.org", "401"), ("haul-web", "401"), ("other.example.org", "421")] {
                let curl = try ChildProcess(
                    "curl",
                    [
                        "-s", "-o", "/dev/null", "-w", "%{http_code}", "--unix-socket", socket, "-H", "Host: \(name)",
                        "http://localhost/api/queues/default",
                    ])
                #expect(try await curl.wait() == 0)
                #expect(curl.standardOutput == status, "\(name)")
            }
            web.kill(SIGTERM)
            #expect(try await web.wait() == 0)
        }
    }
}
