import Foundation
import Glibc
import HaulContract
import HaulHTTP
import HaulTestSupport

/// One directory, one server and a series of random events: new versions on the server, files that users write and
/// delete, and runs of `haul get`, some of which are killed. A model says after each run what the files must be.
///
/// The same seed gives the same events. Only the moment of a kill by the clock may differ.
final class GetHistory {
    /// What one URL of the server has.
    private struct Resource {
        let path: String
        let name: String
        let hasETag: Bool
        /// Seconds since 1970 of the first version; nil: the server sends no Last-Modified.
        let date: Int64?
        var version = 0
    }

    /// A file without a hidden name. `owner` is the URL from which `haul get` downloaded it; nil: it is a user's.
    private struct File {
        var bytes: [UInt8]
        var inode: UInt64
        var owner: Int?
        /// The run that made it was killed before it ended.
        var isUnsettled = false
    }

    private struct Command {
        var resource: Int
        var directory: String?
        var output: String?
        var policy = "reuse"
        var isOnlyNewer = false
        var hasChecksum = false
        var isDurable = true

        /// Two commands with the same key are one download, which the later one continues.
        var key: String {
            let place = "\(directory ?? "") \(output ?? "")"
            return output == nil || policy == "rename" ? "\(resource) \(place)" : place
        }
    }

    private enum Interruption {
        case none
        /// A signal after so many system calls.
        case step(Int)
        /// A signal in the middle of the body.
        case middle(Int32)
    }

    private enum Outcome {
        /// The file is the server's, status 0.
        case fetched
        /// The existing file stays, status 0.
        case stays
        /// Nothing changes, status 1.
        case fails
    }

    /// What the model did not expect.
    private(set) var complaints: [String] = []
    private(set) var kills = 0
    private var log: [String] = []
    private var random: SeededGenerator
    private let seed: UInt64
    private let bench = GetBench()
    private let steps: CommitSteps
    private let resources: Shared<[Resource]>
    /// While it is set, bodies stop in the middle until it is opened.
    private let gate = Shared<Latch?>(nil)
    private let sizes: [Int64]
    private let origin: OriginServer
    private var files: [String: File] = [:]
    /// Commands that were interrupted and have not succeeded since.
    private var pending: [Command] = []

    init(seed: UInt64, _ steps: CommitSteps) throws {
        (self.seed, self.steps) = (seed, steps)
        var random = SeededGenerator(state: seed)
        let dates: [Int64?] = [nil, 784_111_777, 784_111_777, 3_939_785_377]
        let paths = [("/x?a", "x"), ("/x?b", "x"), ("/d/x", "x"), ("/y", "y")]
        let made = paths.map { path, name in
            Resource(
                path: path, name: name, hasETag: random.chance(70), date: dates.randomElement(using: &random)!)
        }
        // Most versions have one size, so that a size proves nothing.
        let sizes: [Int64] = random.chance(70) ? [5000, 5000, 5000, 4000, 7000] : [300_000, 300_000, 200_000, 1]
        let (resources, gate) = (Shared(made), gate)
        (self.random, self.sizes, self.resources) = (random, sizes, resources)
        mkdir(bench.files.file("sub"), 0o755)
        origin = try OriginServer { request in
            guard let index = resources.value.firstIndex(where: { $0.path == request.path }) else {
                return OriginReply(404)
            }
            return Self.reply(to: request, resources.value[index], index, seed, sizes, gate.value)
        }
    }

    // MARK: The server

    private static func bytes(_ index: Int, _ version: Int, _ seed: UInt64, _ sizes: [Int64]) -> FileBytes {
        let own = seed &* 1000 &+ UInt64(index * 100 + version)
        var random = SeededGenerator(state: own)
        return FileBytes(seed: own, count: sizes.randomElement(using: &random)!)
    }

    private static func reply(
        to request: OriginRequest, _ resource: Resource, _ index: Int, _ seed: UInt64, _ sizes: [Int64], _ gate: Latch?
    ) -> OriginReply {
        let date = resource.date.map { $0 + Int64(resource.version * 60) }
        let headers = date.map { [("Last-Modified", HTTPDate.text($0))] } ?? []
        if request.headers["if-none-match"] == nil, let date,
            let since = request.headers["if-modified-since"].flatMap(HTTPDate.parse), date <= since
        {
            var reply = OriginReply(304, headers: headers)
            reply.framing = .none
            return reply
        }
        let bytes = bytes(index, resource.version, seed, sizes)
        var reply = OriginReply.file(
            bytes, etag: resource.hasETag ? "\"v\(resource.version)\"" : nil, headers: headers, to: request)
        if let gate, reply.status != 304 { reply.hold = (min(bytes.count / 2, reply.body.count), gate) }
        return reply
    }

    /// The bytes that the server has now.
    private func current(_ index: Int) -> [UInt8] {
        Self.bytes(index, resources.value[index].version, seed, sizes).all
    }

    // MARK: The events

    func run() async throws {
        for _ in 0..<Int.random(in: 4...9, using: &random) {
            switch Int.random(in: 0..<10, using: &random) {
            case 0, 1:
                let index = Int.random(in: 0..<4, using: &random)
                resources.change { $0[index].version += 1 }
                log.append("\(resources.value[index].path) has a new version")
            case 2: touch()
            default: try await run(command(), interruption())
            }
            guard complaints.isEmpty else { return }
        }
        try await end()
    }

    private func command() -> Command {
        var command = Command(resource: Int.random(in: 0..<4, using: &random))
        // The same file may be named in several ways.
        (command.directory, command.output) =
            [(nil, nil), (nil, nil), (nil, "x"), (nil, "z"), ("sub", nil), (nil, "sub/x"), (".", "sub/x")]
            .randomElement(using: &random)!
        command.policy =
            ["reuse", "reuse", "reuse", "reuse", "overwrite", "rename", "rename", "fail", "skip"].randomElement(
                using: &random)!
        command.hasChecksum = random.chance(15)
        command.isOnlyNewer = command.policy == "reuse" && random.chance(15)
        command.isDurable = random.chance(50)
        // The same command again is the usual thing to do after an interruption.
        if let last = pending.last, random.chance(40) { return last }
        return command
    }

    private func interruption() -> Interruption {
        switch Int.random(in: 0..<10, using: &random) {
        case 0...4: .step(Int.random(in: 1...30, using: &random))
        case 5: .middle([SIGINT, SIGKILL].randomElement(using: &random)!)
        default: .none
        }
    }

    /// A user writes, changes or deletes a file.
    private func touch() {
        let name = ["x", "x", "y", "z", "x (1)", "sub/x"].randomElement(using: &random)!
        switch Int.random(in: 0..<6, using: &random) {
        case 0:
            log.append("a user deletes \(name)")
            unlink(bench.files.file(name))
        case 1 where files[name]?.isUnsettled == false:
            log.append("a user appends to \(name)")
            let file = open(bench.files.file(name), O_WRONLY | O_APPEND)
            _ = Glibc.write(file, "edit", 4)
            close(file)
        case let kind:
            let whole = current(Int.random(in: 0..<4, using: &random))
            let bytes =
                switch kind {
                case 1: Array(whole.prefix(whole.count / 2))
                case 2: whole
                case 3: [UInt8]()
                case 4: FileBytes(seed: random.next(), count: Int64(whole.count)).all
                default: Array("a user's".utf8)
                }
            log.append("a user writes \(name), kind \(kind)")
            unlink(bench.files.file(name))
            bench.write(name, bytes)
        }
        files = found().mapValues { file in
            var file = file
            if let known = files.values.first(where: { $0.inode == file.inode && $0.bytes == file.bytes }) {
                (file.owner, file.isUnsettled) = (known.owner, known.isUnsettled)
            }
            return file
        }
    }

    /// The files that have no hidden name, as if no command had downloaded them.
    private func found() -> [String: File] {
        Dictionary(
            uniqueKeysWithValues: names.filter { !Self.isHidden($0) }.map { name in
                var status = stat()
                stat(bench.files.file(name), &status)
                return (name, File(bytes: bench.files.contents(name) ?? [], inode: UInt64(status.st_ino)))
            })
    }

    private var hidden: [String] { names.filter(Self.isHidden) }

    private static func isHidden(_ name: String) -> Bool { name.hasPrefix(".") || name.hasPrefix("sub/.") }

    private var names: [String] {
        let inner = (try? FileManager.default.contentsOfDirectory(atPath: bench.files.file("sub"))) ?? []
        return bench.names.filter { $0 != "sub" } + inner.map { "sub/" + $0 }
    }

    // MARK: Runs

    private func run(_ command: Command, _ interruption: Interruption) async throws {
        let resource = resources.value[command.resource]
        var arguments = [origin.url(resource.path)]
        if let directory = command.directory { arguments += ["-d", directory] }
        if let output = command.output { arguments += ["-o", output] }
        if command.policy != "reuse" { arguments += ["--if-exists", command.policy] }
        if command.isOnlyNewer { arguments.append("-N") }
        if command.hasChecksum {
            arguments += ["--checksum", "sha256:" + SHA256.hexadecimal(SHA256.digest(current(command.resource)))]
        }
        if !command.isDurable { arguments += ["--durability", "process"] }
        log.append("haul get \(arguments.dropFirst().joined(separator: " ")) \(resource.path) [\(interruption)]")
        var environment: [String: String] = [:]
        if case .step(let step) = interruption {
            steps.arm("\(seed)")
            environment = steps.environment("\(seed)", step: step, signal: SIGKILL, countsWrites: true)
        }
        var latch: Latch?
        if case .middle = interruption {
            latch = Latch()
            gate.value = latch
        }
        let asked = origin.requests.count
        let get = try bench.start(arguments, environment: environment)
        if case .middle(let signal) = interruption {
            try await eventually("a request, or the end") { !get.isRunning || origin.requests.count > asked }
            get.kill(signal)
        }
        if let latch {
            gate.value = nil
            latch.open()
        }
        let status = try await get.wait()
        let output = get.standardOutput + get.standardError
        log.append("  status \(status): \(output)")
        if status >= 128 {
            kills += 1
            afterInterruption(command)
        } else {
            afterEnd(command, status, get.standardOutput)
        }
    }

    /// What may happen, by docs/guides/haul-get.md.
    private func outcomes(_ command: Command, _ name: String) -> [Outcome] {
        let (index, now) = (command.resource, current(command.resource))
        let date = resources.value[index].date
        guard let file = files[name], command.policy != "rename" else { return [.fetched] }
        let isSame = file.bytes == now
        if command.policy == "skip" {
            // With a checksum, status 0 means that the file has it.
            guard command.hasChecksum, !isSame else {
                // An interrupted download of its own goes on, and puts the same bytes there.
                return pending.contains { $0.key == command.key } && isSame ? [.stays, .fetched] : [.stays]
            }
            return file.owner == index ? [.fetched] : [.fails]
        }
        if file.owner == index || command.policy == "overwrite" { return isSame ? [.fetched, .stays] : [.fetched] }
        if command.policy == "fail" { return command.hasChecksum && isSame ? [.stays, .fails] : [.fails] }
        if command.hasChecksum, isSame { return [.stays] }
        if file.owner != nil { return [.fails] }
        if command.isOnlyNewer, date != nil { return command.hasChecksum ? [.fetched, .fails] : [.fetched, .stays] }
        if command.hasChecksum, file.bytes.count < now.count {
            return now.starts(with: file.bytes) ? [.fetched] : [.fails]
        }
        let isOld = date.map { $0 < 1_000_000_000 } ?? false
        return !command.hasChecksum && file.bytes.count == now.count && isOld ? [.stays] : [.fails]
    }

    private func likelyName(_ command: Command) -> String {
        (command.directory == "sub" ? "sub/" : "") + (command.output ?? resources.value[command.resource].name)
    }

    /// Whether a download of the command may have replaced what had this name.
    private func mayWrite(_ command: Command, _ name: String) -> Bool {
        let likely = likelyName(command)
        if command.policy == "rename" {
            let isNumbered = name.hasPrefix(likely + " (") && name.hasSuffix(")")
            return (name == likely || isNumbered) && (files[name] == nil || files[name]?.owner == command.resource)
        }
        return name == likely && outcomes(command, name).contains(.fetched)
    }

    private func afterInterruption(_ command: Command) {
        if !pending.contains(where: { $0.key == command.key }) { pending.append(command) }
        let after = found()
        var changed: [String] = []
        for name in Set(files.keys).union(after.keys).sorted() {
            if let before = files[name], let now = after[name], before.inode == now.inode, before.bytes == now.bytes {
                continue
            }
            changed.append(name)
            guard let now = after[name] else { return recordMismatch("\(name) is gone") }
            guard mayWrite(command, name) else { return recordMismatch("\(name) was changed") }
            guard now.bytes == current(command.resource) else { return recordMismatch("\(name) has other bytes") }
            files[name] = File(bytes: now.bytes, inode: now.inode, owner: command.resource, isUnsettled: true)
        }
        if changed.count > 1 { recordMismatch("\(changed) were changed") }
    }

    private func afterEnd(_ command: Command, _ status: Int32, _ output: String) {
        let likely = likelyName(command)
        let outcomes = outcomes(command, likely)
        let after = found()
        var target: String?
        if status == 0 {
            pending.removeAll { $0.key == command.key }
            target = output.split(separator: "\n").last.flatMap { line in
                let parts = line.split(separator: "  ", maxSplits: 2)
                return parts.count > 1 ? String(parts[1]) : nil
            }
            guard let target, let file = after[target] else { return recordMismatch("no file: \(output)") }
            let isFetched = file.inode != files[target]?.inode || file.bytes != files[target]?.bytes
            if isFetched, !mayWrite(command, target) { return recordMismatch("\(target) must not be replaced") }
            // An earlier `rename` gave the URL's file a number. Unless this name is asked for, that file is the answer.
            let isNumbered =
                !isFetched && command.policy != "overwrite" && files[target]?.owner == command.resource
                && file.bytes == current(command.resource)
            guard outcomes != [.fails] || isNumbered else { return recordMismatch("it should have failed") }
            if command.policy != "rename", target != likely, !isNumbered {
                return recordMismatch("\(target) instead of \(likely)")
            }
            if isFetched || !outcomes.contains(.stays), file.bytes != current(command.resource) {
                return recordMismatch("\(target) has other bytes")
            }
            let isOwn = isFetched || files[target]?.owner == command.resource
            files[target] = File(
                bytes: file.bytes, inode: file.inode, owner: isOwn ? command.resource : files[target]?.owner)
            if pending.isEmpty, !hidden.isEmpty { recordMismatch("\(hidden) are left") }
        } else {
            guard status == 1, outcomes.contains(.fails) else { return recordMismatch("it should have succeeded") }
        }
        for name in Set(files.keys).union(after.keys) where name != target {
            guard let before = files[name], let now = after[name], before.inode == now.inode, before.bytes == now.bytes
            else { return recordMismatch("\(name) was changed") }
        }
    }

    /// All that was interrupted is repeated or forgotten. Then nothing hidden may be left.
    private func end() async throws {
        for command in pending { try await run(command, .none) }
        guard complaints.isEmpty else { return }
        if let command = pending.first ?? Optional(command()) {
            try await run(command, .none)
            let before = files
            try await run(command, .none)
            if files.mapValues(\.inode) != before.mapValues(\.inode), resources.value[command.resource].hasETag {
                recordMismatch("the same command again has replaced a file")
            }
        }
        guard complaints.isEmpty, !pending.isEmpty else {
            if !hidden.isEmpty, complaints.isEmpty { recordMismatch("\(hidden) are left at the end") }
            return
        }
        log.append("haul get --forget")
        let forget = try await bench.get("--forget")
        log.append("  \(forget)")
        if forget.status != 0 || !hidden.isEmpty { recordMismatch("\(hidden) are left after --forget") }
        let after = found()
        if after.mapValues(\.bytes) != files.mapValues(\.bytes) { recordMismatch("--forget has changed files") }
    }

    private func recordMismatch(_ what: String) {
        guard complaints.isEmpty else { return }
        let all = resources.value.map { "\($0.path) etag \($0.hasETag) date \($0.date ?? 0)" }
        complaints.append("seed \(seed): \(what)\n" + (all + log).joined(separator: "\n"))
    }
}
