import Glibc
import HaulTestSupport
import Testing

/// Existing files that `haul get` may not read.
@Suite struct GetUnreadableTests {
    private static let bytes = FileBytes(seed: 98, count: 100_000)
    private static let setpriv = ChildProcess.path(of: "setpriv")

    /// Runs `haul get` without root's right to read every file.
    private func get(_ bench: GetBench, _ arguments: [String]) async throws -> (status: Int32, err: String) {
        let haul = try #require(ChildProcess.path(of: "haul"))
        let drop = ["--bounding-set", "-dac_override,-dac_read_search", "--inh-caps", "-all"]
        let program = geteuid() == 0 ? [try #require(Self.setpriv)] + drop + [haul] : [haul]
        let process = try ChildProcess(
            "/bin/sh",
            ["-c", "cd \"$1\" && shift && exec \"$@\"", "sh", bench.files.path] + program + ["get"] + arguments,
            environment: ["XDG_STATE_HOME": bench.home.path, "no_proxy": "", "HOME": bench.home.path])
        return (try await process.wait(), process.standardError)
    }

    @Test(
        "a file that cannot be read stays, and nothing is said about its checksum",
        .enabled(if: geteuid() != 0 || setpriv != nil, "setpriv is not installed"),
        arguments: [[], ["--if-exists", "skip"]])
    func checksum(_ options: [String]) async throws {
        let bench = GetBench()
        let origin = try OriginServer { .file(Self.bytes, to: $0) }
        bench.write("x", Self.bytes.all)
        try #require(chmod(bench.files.file("x"), 0o200) == 0)
        let checksum = ["--checksum", "sha256:" + Self.bytes.sha256]
        let get = try await get(bench, options + checksum + [origin.url("/x")])
        #expect(get.status == 1 && get.err.contains("cannot be read to compare its sha256"), "\(get)")
        #expect(!get.err.contains("another sha256"))
        try #require(chmod(bench.files.file("x"), 0o600) == 0)
        #expect(bench.files.holds("x", Self.bytes) && bench.names == ["x"])
    }

    @Test(
        "a part that cannot be read is refused before anything is fetched",
        .enabled(if: geteuid() != 0 || setpriv != nil, "setpriv is not installed"))
    func part() async throws {
        let bench = GetBench()
        let origin = try OriginServer { .file(Self.bytes, to: $0) }
        bench.write("x", Self.bytes.bytes(0..<1000))
        try #require(chmod(bench.files.file("x"), 0o200) == 0)
        let get = try await get(bench, ["--checksum", "sha256:" + Self.bytes.sha256, origin.url("/x")])
        #expect(get.status == 1 && get.err.contains("cannot be read, and the server's has 100.0 kB"), "\(get)")
        #expect(!get.err.contains("during this download") && origin.requests.count == 1 && bench.names == ["x"])
    }

    @Test(
        "a directory that cannot be written fails the download, and the message speaks of no worker",
        .enabled(if: geteuid() != 0 || setpriv != nil, "setpriv is not installed"))
    func directory() async throws {
        let bench = GetBench()
        let origin = try OriginServer { .file(Self.bytes, to: $0) }
        try #require(mkdir(bench.files.file("sub"), 0o500) == 0)
        bench.write("list", "\(origin.url("/x"))\n  out=sub/x\n")
        let get = try await get(bench, ["-i", "list"])
        #expect(get.status == 1 && get.err.contains("check its owner and its permissions"), "\(get)")
        #expect(!get.err.contains("worker"), "\(get)")
        #expect(rmdir(bench.files.file("sub")) == 0)
    }
}
