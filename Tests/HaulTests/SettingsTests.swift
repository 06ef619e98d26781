import Foundation
import HaulTestSupport
import Testing

/// The sources of a worker's settings.
@Suite struct SettingsTests {
    private let directory = TemporaryDirectory()

    private func file(_ name: String, _ text: String) throws -> String {
        let path = directory.file(name)
        try Data(text.utf8).write(to: URL(fileURLWithPath: path))
        return path
    }

    private func print(
        _ arguments: [String], _ environment: [String: String] = [:]
    ) async throws -> (status: Int32, out: String, err: String) {
        let process = try ChildProcess(
            "haul", ["worker", "--print-config"] + arguments,
            environment: ["HAUL_REDIS": ""].merging(environment) { $1 })
        let status = try await process.wait()
        return (status, process.standardOutput, process.standardError)
    }

    @Test("an option that protects is refused if it is given twice, because only one of them would count")
    func twice() async throws {
        let given = try await print(["--root", "/srv", "--gate", "first", "--gate=second"])
        #expect(given.status == 2 && given.err.contains("--gate is given twice"), "\(given)")
        #expect(try await print(["--root", "/srv", "--slots", "1", "--slots", "2"]).status == 0)
    }

    @Test(
        "the sources take precedence in order: arguments, environment, credentials, file, defaults")
    func precedence() async throws {
        let file = try file(
            "conf",
            """
            # A comment.
            root = /srv
            slots = 4
              grace=7
            limit-rate = 1000
            connections = 3
            queue = high=2
            queue = low
            remote-time = yes
            allow-private = no
            redis = redis://of-the-file
            proxy-file = \(try self.file("proxy", "socks5h://user:planted@10.0.0.1:1080\n"))

            """)
        _ = try self.file("redis", "redis://:planted@of-a-credential\n")
        _ = try self.file("limit-rate", "2000")
        let output = try await print(
            ["--slots", "6", "--config", file],
            [
                "HAUL_SLOTS": "5", "HAUL_GRACE": "8", "CREDENTIALS_DIRECTORY": directory.path,
                "HAUL_ALLOW_ADDRESS": "10.0.0.0/8, 192.168.0.0/16",
            ])
        #expect(output.status == 0, "\(output.err)")
        for words in [
            "# from the command line:\nslots = 6\n", "# from the variable HAUL_GRACE:\ngrace = 8\n",
            "# from the credential limit-rate:\nlimit-rate = 2000\n", "# from \(file):6:\nconnections = 3\n",
            "queue = high=2\nqueue = low\n", "remote-time = yes\n", "allow-private = no\n",
            "# from the credential redis:\nredis = redis://of-a-credential\n", "proxy = socks5h://10.0.0.1:1080\n",
            "allow-address = 10.0.0.0/8\nallow-address = 192.168.0.0/16\n", "\n# lease = 8.0\n", "\n# name =\n",
        ] {
            #expect(output.out.contains(words), "\(words)\n\(output.out)")
        }
        #expect(!output.out.contains("planted"))
        // The output is a valid settings file.
        let again = try await print(["--config", try self.file("again", output.out)])
        #expect(again.status == 0, "\(again.err)")
        #expect(again.out.contains("\ngrace = 8\n"))
    }

    @Test(
        "no password of a proxy is printed, in whatever form the proxy is given",
        arguments: [
            ("user:planted@10.0.0.1:3128", "10.0.0.1:3128"), ("user:planted@proxy.example", "proxy.example"),
            ("user:pl@nted:planted@[fd00::1]:1", "[fd00::1]:1"), ("10.0.0.1:3128", "10.0.0.1:3128"),
            ("HTTP://:planted@h:1", "HTTP://h:1"),
        ])
    func proxies(_ given: String, _ printed: String) async throws {
        let file = try file("conf", "root = /srv/a@b\nproxy = \(given)\n")
        let output = try await print(["--config", file])
        #expect(output.status == 0 && output.out.contains("\nproxy = \(printed)\n"), "\(output)")
        #expect(!output.out.contains("planted") && output.out.contains("root = /srv/a@b\n"), "\(output.out)")
    }

    @Test("an invalid setting is reported with its place, and with a likely correction") func errors() async throws {
        for (text, words) in [
            ("slot = 3", ":1: \"slot\" is not an option of haul worker. Did you mean slots?"),
            ("\nrubbish", ":2: \"rubbish\" is not a setting: write option = value"),
            ("slots = 3\nslots = 4", ":2: slots is already set in line 1"),
            ("remote-time = maybe", "remote-time must be true or false"),
            ("config = x", "\"config\" is not an option"),
            ("redis-file = /no/such/file", "/no/such/file, which cannot be read"),
            ("slots = none", "(--slots comes from"), ("lease = 1", "(--lease comes from"),
            ("connections = many", "(--connections comes from"),
        ] {
            let output = try await print(["--root", "/srv", "--config", try file("conf", text)])
            #expect(output.status == 2, "\(text): \(output.out)")
            #expect(output.err.contains(words), "\(text): \(output.err)")
        }
        #expect(try await print(["--root", "/srv"], ["HAUL_CONFIG": "/no/such/file"]).err.contains("cannot be read"))
        #expect(try await print(["--root", "/srv"], ["HAUL_SLOTS": "x"]).err.contains("the variable HAUL_SLOTS"))
        #expect(try await print([]).err.contains("--root"))
    }

    @Test(
        "an empty variable of an option that protects is refused, unless another source sets the option",
        arguments: ["gate", "kinds", "no-overwrite", "file-mode", "max-file-size", "limit-rate", "settle-replicas"])
    func emptyProtections(_ option: String) async throws {
        let variable = "HAUL_" + option.uppercased().replacing("-", with: "_")
        let refused = try await print(["--root", "/srv"], [variable: ""])
        #expect(refused.status == 2 && refused.err.contains("the variable \(variable) is empty"), "\(refused)")
        let values = ["gate": "true", "kinds": "download", "no-overwrite": "true", "file-mode": "0640"]
        let file = try file("conf", "root = /srv\n\(option) = \(values[option] ?? "1")\n")
        let given = try await print(["--config", file], [variable: ""])
        #expect(given.status == 0 && given.out.contains("\n\(option) = \(values[option] ?? "1")\n"), "\(given)")
        #expect(try await print(["--root", "/srv"], ["HAUL_SLOTS": ""]).status == 0)
    }

    @Test("an empty variable is not taken for a missing file of settings or of users")
    func emptyFiles() async throws {
        let worker = try await print(["--root", "/srv"], ["HAUL_CONFIG": ""])
        #expect(worker.status == 2 && worker.err.contains("the variable HAUL_CONFIG is empty"), "\(worker)")
        let web = try ChildProcess("haul", ["web", "--listen", "127.0.0.1:0"], environment: ["HAUL_WEB_AUTH": ""])
        #expect(try await web.wait() == 2)
        #expect(web.standardError.contains("the variable HAUL_WEB_AUTH is empty"), "\(web.standardError)")
    }

    @Test("no other command reads a worker's settings") func others() async throws {
        let process = try ChildProcess(
            "haul", ["stats", "--help"], environment: ["HAUL_SLOTS": "x", "HAUL_CONFIG": "/no"])
        #expect(try await process.wait() == 0)
    }
}
