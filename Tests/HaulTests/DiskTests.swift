import Foundation
import Glibc
import HaulTestSupport
import Testing

/// Workers on real file systems that are full, read-only, broken or gone. The worker waits, the jobs do not fail, and
/// everything continues by itself afterwards.
@Suite struct DiskTests {
    static let available = ConditionTrait.enabled("needs private mounts") { await PrivateMounts.arePossible() }

    /// A worker whose root is a file system of its own, which `mount` mounts at `$ROOT`.
    private struct Bench {
        let fleet: ProcessFleet
        let worker: ChildProcess

        init(_ mount: String, before: String = "", options: [String] = []) async throws {
            fleet = try await ProcessFleet(held: nil)
            worker = try PrivateMounts.start(
                "ROOT=\(fleet.root.path)\n\(mount)\n\(before)", "haul", fleet.arguments("w") + options)
        }

        /// Runs a line of sh in the root, in the worker's mount namespace.
        func sh(_ line: String) async throws {
            try await PrivateMounts.run("ROOT=\(fleet.root.path)\ncd $ROOT\n\(line)", in: worker)
        }

        func push(_ id: String, path: String? = nil) async throws {
            let path = path ?? id
            try await fleet.server.cli(
                "LPUSH", "haul:{default}:jobs",
                #"{"url":"\#(fleet.origin.url("/" + id))","id":"\#(id)","path":"\#(path)"}"#)
        }

        func holds(_ name: String) -> Bool {
            let path = "/proc/\(worker.id)/root\(fleet.root.file(name))"
            return FileManager.default.contents(atPath: path).map { Array($0) } == ProcessFleet.bytes.all
        }

        /// Two jobs wait until `cure` has run. The first is parked, and its record says so. The second is not even
        /// claimed. Then both complete.
        func expectWait(
            _ why: String, path: String? = nil, until cure: String, _ location: SourceLocation = #_sourceLocation
        ) async throws {
            try await push("first", path: path)
            try await fleet.waitUntilParked("first")
            try await fleet.wait(for: why, from: worker)
            try await push("second")
            // The first job is due again after 5 s, while the worker claims nothing.
            try await eventually("the first job to be queued again", every: .milliseconds(50)) {
                try await fleet.field("state", of: "first") == "queued"
            }
            #expect(try await fleet.server.cli("LLEN", "haul:{default}:jobs") == "2", sourceLocation: location)
            try await sh(cure)
            for id in ["first", "second"] { try await fleet.wait(id, for: "completed") }
            #expect(holds(path ?? "first") && holds("second"), sourceLocation: location)
            #expect(try await fleet.field("attempt", of: "first").isEmpty, sourceLocation: location)
            #expect(try await fleet.field("crashes", of: "first").isEmpty, sourceLocation: location)
            try await fleet.end(worker)
        }
    }

    @Test("jobs wait while the disk is full", available) func full() async throws {
        let bench = try await Bench("mount -t tmpfs -o size=64m none $ROOT")
        try await bench.fleet.wait(for: "working", from: bench.worker)
        try await bench.sh("head -c 60000000 /dev/zero >fill")
        try await bench.expectWait("the disk is full", until: "rm fill")
    }

    @Test("a body without an end fills the disk to its reserve, fails, and leaves space for other jobs", available)
    func endless() async throws {
        let bench = try await Bench("mount -t tmpfs -o size=64m none $ROOT", options: ["--keep-free", "30000000"])
        let endless = try OriginServer { _ in
            var reply = OriginReply()
            reply.body = .file(ProcessFleet.bytes, 0..<1 << 40)
            reply.framing = .chunked
            return reply
        }
        try await bench.fleet.server.cli(
            "LPUSH", "haul:{default}:jobs", #"{"url":"\#(endless.url("/e"))","id":"e","retries":0}"#)
        try await bench.fleet.wait("e", for: "failed")
        #expect(try await bench.fleet.field("error", of: "e") == "io")
        let message = try await bench.fleet.field("message", of: "e")
        let written = try #require(message.split(separator: " ").compactMap { Int($0) }.first)
        // On a busy machine all of the worker's blocks may have been received, and not yet refused by the disk.
        #expect((1_000_000...(64 << 20) - 30_000_000 + 12 * (2 << 20)).contains(written))
        try await bench.push("other")
        try await bench.fleet.wait("other", for: "completed")
        #expect(bench.holds("other"))
        try await bench.fleet.end(bench.worker)
    }

    @Test("haul get says that it cannot record a download, and completes it", available) func unrecorded() async throws
    {
        let (origin, files) = (try OriginServer { .file(ProcessFleet.bytes, to: $0) }, TemporaryDirectory())
        let full = """
            mount -t tmpfs -o size=64k none /mnt
            mkdir -p /mnt/haul/get
            dd if=/dev/zero of=/mnt/fill bs=4k 2>/dev/null || :
            export XDG_STATE_HOME=/mnt
            """
        let get = try PrivateMounts.start(full, "haul", ["get", "-q", "-d", files.path, origin.url("/a")])
        #expect(try await get.wait() == 0)
        #expect(get.standardError.contains("cannot be written (No space left on device)"), "\(get.standardError)")
        #expect(files.holds("a", ProcessFleet.bytes))
    }

    static let btrfs = """
        mount -t tmpfs -o size=400m none /mnt
        truncate -s 300m /mnt/image
        mkfs.btrfs -q /mnt/image >/dev/null
        mount -o loop /mnt/image
        """

    @Test(
        "jobs wait while a quota is used up, although the disk has space",
        .enabled("needs loop devices and btrfs") { await PrivateMounts.arePossible(btrfs + " /opt") })
    func quota() async throws {
        let bench = try await Bench(Self.btrfs + " $ROOT", before: "btrfs quota enable $ROOT")
        try await bench.fleet.wait(for: "working", from: bench.worker)
        try await bench.sh("btrfs qgroup limit 10M .; dd if=/dev/zero of=fill bs=100k count=200 || :")
        try await bench.expectWait("the disk is full", until: "btrfs qgroup limit none .")
    }

    /// An ext4 file system whose device fails once it holds 40 MB, although the file system has more space.
    static let failing = """
        mount -t tmpfs -o size=40m none /mnt
        truncate -s 300m /mnt/image
        mkfs.ext4 -q -E nodiscard /mnt/image
        mount -o loop /mnt/image
        """

    @Test(
        "the jobs of a worker whose disk fails beneath its file system are done by another worker",
        .enabled("needs loop devices") { await PrivateMounts.arePossible(failing + " /opt") })
    func failingDisk() async throws {
        let bench = try await Bench(Self.failing + " $ROOT")
        try await bench.fleet.wait(for: "working", from: bench.worker)
        try await bench.sh("dd if=/dev/zero of=fill bs=1M count=100 oflag=direct || :")
        try await bench.push("a")
        try await bench.fleet.waitUntilParked("a")
        let better = try bench.fleet.worker("better")
        try await bench.fleet.wait("a", for: "completed")
        #expect(bench.fleet.root.holds("a", ProcessFleet.bytes))
        #expect(try await bench.fleet.field("attempt", of: "a").isEmpty)
        try await bench.fleet.end(bench.worker, better)
    }

    @Test("jobs wait while there is no inode for a directory", available) func inodes() async throws {
        let bench = try await Bench("mount -t tmpfs -o size=64m,nr_inodes=20 none $ROOT")
        try await bench.fleet.wait(for: "working", from: bench.worker)
        try await bench.sh("i=0; while touch fill$i 2>/dev/null; do i=$((i+1)); done")
        try await bench.expectWait("the disk is full", path: "a/b/c", until: "rm fill*")
    }

    @Test("a worker that starts on a known full disk waits for space", available) func fullAtStart() async throws {
        let bench = try await Bench(
            "mount -t tmpfs -o size=64m none $ROOT",
            before: "printf 0123 >$ROOT/.haul-store; head -c 99999999 /dev/zero >$ROOT/fill || :")
        try await bench.fleet.wait(for: "the disk is full", from: bench.worker)
        try await bench.push("a")
        try await eventually("a tick", every: .milliseconds(50)) {
            try await bench.fleet.server.cli("EXISTS", "haul:{default}:tick") == "1"
        }
        #expect(try await bench.fleet.server.cli("LLEN", "haul:{default}:jobs") == "1")
        try await bench.sh("rm fill")
        try await bench.fleet.wait("a", for: "completed")
        #expect(try await bench.fleet.field("store", of: "a") == "0123")
        try await bench.fleet.end(bench.worker)
    }

    @Test("jobs wait while the root is read-only, as after a file system error", available)
    func readOnly() async throws {
        let bench = try await Bench("mount -t tmpfs -o size=64m none $ROOT")
        try await bench.fleet.wait(for: "working", from: bench.worker)
        try await bench.sh("cd /; mount -o remount,bind,ro $ROOT")
        try await bench.expectWait("Read-only file system", until: "mount -o remount,bind,rw $ROOT")
    }

    @Test("jobs wait while the root is not writable", available) func permission() async throws {
        let bench = try await Bench(
            "mount -t tmpfs -o size=64m none $ROOT",
            before: "exec setpriv --bounding-set -dac_override --inh-caps -all \"$@\"")
        try await bench.fleet.wait(for: "working", from: bench.worker)
        try await bench.sh("chmod 500 .")
        try await bench.expectWait("Permission denied", until: "chmod 700 .")
    }

    @Test("a directory that is not writable fails its job, and no other job", available)
    func oneDirectory() async throws {
        let bench = try await Bench(
            "mount -t tmpfs -o size=64m none $ROOT",
            before: "mkdir -m 500 $ROOT/theirs; exec setpriv --bounding-set -dac_override --inh-caps -all \"$@\"")
        try await bench.push("a", path: "theirs/a")
        try await bench.push("b")
        try await bench.fleet.wait("a", for: "failed")
        #expect(try await bench.fleet.field("error", of: "a") == "permission")
        try await bench.fleet.wait("b", for: "completed")
        try await bench.fleet.end(bench.worker)
    }

    @Test("a root that is not writable at the start is refused", available) func readOnlyAtStart() async throws {
        let bench = try await Bench("mount -t tmpfs -o ro none $ROOT")
        // A service manager starts it again, because the root may be writable by then.
        #expect(try await bench.worker.wait() == 1)
        #expect(bench.worker.standardError.contains("is not writable: Read-only file system"))
    }

    @Test(
        "the jobs of a root that is gone wait until it is back, or for a worker with another root",
        arguments: ["before", "while", "back"])
    func gone(_ timestamp: String) async throws {
        let fleet = try await ProcessFleet(held: timestamp == "while" ? 800_000 : nil)
        let folder = fleet.root.file("downloads")
        mkdir(folder, 0o700)
        let arguments = fleet.arguments("w").map { $0 == fleet.root.path ? folder : $0 }
        let worker = try ChildProcess("haul", arguments)
        try await fleet.wait(for: "working", from: worker)
        let id = try #require(FileManager.default.contents(atPath: folder + "/.haul-store"))
        if timestamp == "while" {
            try await fleet.push("a")
            try await fleet.wait("a", for: "running")
        }
        try await eventually("the root to be gone") {
            // The worker may create files in the meantime.
            try? FileManager.default.removeItem(atPath: folder)
            return !FileManager.default.fileExists(atPath: folder)
        }
        if timestamp == "while" { fleet.gate.open() } else { try await fleet.push("a") }
        try await fleet.waitUntilParked("a")
        try await fleet.wait(for: "the root is gone", from: worker)
        #expect(try await fleet.field("crashes", of: "a").isEmpty)
        mkdir(folder, 0o700)
        var next = worker
        if timestamp == "back" {
            try id.write(to: URL(fileURLWithPath: folder + "/.haul-store"))
        } else {
            try await fleet.end(worker)
            next = try ChildProcess("haul", arguments)
        }
        try await fleet.wait("a", for: "completed")
        #expect(FileManager.default.contents(atPath: folder + "/a").map { Array($0) } == ProcessFleet.bytes.all)
        try await fleet.end(next)
    }

    /// A library to preload. While the file `$UNSYNCED` exists, no directory can be synced.
    private static let unsynced = """
        #define _GNU_SOURCE
        #include <dlfcn.h>
        #include <errno.h>
        #include <stdlib.h>
        #include <sys/stat.h>
        #include <unistd.h>
        int fsync(int descriptor) {
            struct stat status;
            if (fstat(descriptor, &status) == 0 && S_ISDIR(status.st_mode) && access(getenv("UNSYNCED"), F_OK) == 0) {
                errno = EIO;
                return -1;
            }
            return ((int (*)(int))dlsym(RTLD_NEXT, "fsync"))(descriptor);
        }
        """

    @Test("a file whose name was not synced is completed only after its name is synced")
    func unsyncedName() async throws {
        let fleet = try await ProcessFleet(held: nil)
        let others = TemporaryDirectory()
        let library = try ChildProcess(
            "clang", ["-shared", "-fPIC", "-x", "c", "-", "-o", others.file("unsynced.so")], input: Self.unsynced)
        #expect(try await library.wait() == 0)
        let worker = try ChildProcess(
            "haul", fleet.arguments("w"),
            environment: ["LD_PRELOAD": others.file("unsynced.so"), "UNSYNCED": others.file("flag")])
        try await fleet.wait(for: "working", from: worker)
        try Data().write(to: URL(fileURLWithPath: others.file("flag")))
        try await fleet.push("a")
        try await eventually("the second run to end", every: .milliseconds(50)) {
            let attempt = try await fleet.field("attempt", of: "a")
            return try await fleet.field("state", of: "a") == "completed" || attempt == "2"
        }
        #expect(fleet.root.holds("a", ProcessFleet.bytes))
        #expect(try await fleet.field("error", of: "a") == "io")
        unlink(others.file("flag"))
        try await fleet.wait("a", for: "completed")
        #expect(fleet.origin.requests.count == 1)
        try await fleet.end(worker)
    }

    @Test("a file over the process' size limit is too large, and the worker survives") func limit() async throws {
        let fleet = try await ProcessFleet(held: nil)
        let haul = try #require(ChildProcess.path(of: "haul"))
        let worker = try ChildProcess("prlimit", ["--fsize=1000000", haul] + fleet.arguments("w"))
        try await fleet.push("a")
        try await fleet.wait("a", for: "failed")
        #expect(try await fleet.field("error", of: "a") == "too_large")
        // Another worker may have a larger disk, so a retry by hand is worth it.
        #expect(try await fleet.field("retryable", of: "a") == "1")
        #expect(try await fleet.field("message", of: "a").contains("a worker with more space may complete the job"))
        #expect(worker.isRunning)
        try await fleet.end(worker)
    }

    @Test("a file that the disk has no space for lets others through, and the worker does not flap", available)
    func tooLarge() async throws {
        let bench = try await Bench("mount -t tmpfs -o size=64m none $ROOT", options: ["--slots", "1"])
        let large = try OriginServer { _ in
            var reply = OriginReply()
            reply.body = .file(ProcessFleet.bytes, 0..<40_000_000)
            return reply
        }
        try await bench.fleet.wait(for: "working", from: bench.worker)
        try await bench.sh("head -c 24000000 /dev/zero >fill")
        try await bench.fleet.push(large.url("/large"), as: "large")
        try await bench.fleet.waitUntilParked("large")
        try await bench.push("small")
        try await bench.fleet.wait("small", for: "completed")
        try await eventually("three attempts of the large file", within: .seconds(40)) { large.requests.count >= 3 }
        let log = bench.worker.standardError
        #expect(log.components(separatedBy: "no more jobs are claimed").count == 2, "\(log)")
        #expect(!log.contains("claims jobs again"), "\(log)")
        try await bench.fleet.server.cli("HSET", "haul:{default}:want", "large", "cancelled")
        try await bench.fleet.wait("large", for: "cancelled")
        try await bench.fleet.wait(for: "claims jobs again", from: bench.worker)
        try await bench.fleet.end(bench.worker)
    }
}
