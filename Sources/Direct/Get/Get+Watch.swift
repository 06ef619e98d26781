import Glibc
import HaulTerminal

// `--watch`: the lists that appear in a directory.
extension Get {
    /// Downloads each list that appears, until a signal ends the command. A list that is there at the start counts as
    /// well, because the last command may have been killed before it was done.
    func download(listsIn directory: String, _ configuration: GetConfiguration?) async throws {
        var before = try Self.lists(in: directory)
        // Before the first list appears, as far as options decide it.
        let root =
            try source.isStreaming ? nil : GetTarget.of(directory: source.directory, output: source.output).root
        if let root { try Self.check([root == "/" ? root : root + "/"], whileWatching: directory) }
        // What is wrong with an option is wrong for all lists, and no list is renamed for that.
        var first = source
        first.inputFile = [directory]
        try first.checkSingleFileOptions()
        let tried = try settings(configuration)
        if let root { try tried.stores.check([root]) }
        // What can be read again. Each list has the checksums that the file has by then.
        _ = try ChecksumFile(files: source.checksumFile.filter { $0 != "-" && !TextFile.isURL($0) }, GetLists())
        let (sender, writeOut) = try (GetSender(request), writeOut.map(WriteOut.read))
        // One task for all lists, so that a signal between two of them ends the command as well.
        let work = Task {
            while !Task.isCancelled {
                try? await Task.sleep(for: .seconds(1))
                let now = try Self.lists(in: directory)
                // A list that has changed since the last look may not be written to its end.
                for (list, version) in now.sorted(by: { $0.key < $1.key })
                where before[list] == version && !Task.isCancelled {
                    var settings = try settings(configuration)
                    settings.shareCookieFile(of: tried)
                    try await download(list, of: version, in: directory, settings, sender, writeOut)
                }
                before = now
            }
        }
        let signals = Signals.cancelling(work)
        defer { signals.cancel() }
        try await work.value
    }

    /// Refuses files that would arrive in the watched directory: each would be read as a list of the user's own, with
    /// all that such a list may do, and renamed.
    ///
    /// - Throws: `ExitStatus.usage`; the reason has been printed.
    static func check(_ directories: Set<String>, whileWatching watched: String) throws {
        guard let real = realpath(watched, nil) else { return }
        defer { free(real) }
        let path = String(cString: real)
        guard directories.contains(path == "/" ? path : path + "/") else { return }
        throw ExitStatus.printing(
            .usage,
            "--watch \(watched): files would arrive there as well, and be read as lists: name another directory with -d"
        )
    }

    /// - Parameter version: What `lists(in:)` says of the list that is read.
    private func download(
        _ list: String, of version: [Int], in directory: String, _ settings: TransferSettings, _ sender: GetSender,
        _ writeOut: WriteOut?
    ) async throws {
        var get = self
        get.source.inputFile = [list]
        var end = "done"
        do { try await get.run(settings, sender, writeOut) } catch let status as ExitStatus {
            if status == .interrupted { throw status }
            end = "failed"
        }
        // Lines may have been added during the downloads. Then the list is read again, and what is there already stays.
        guard try Self.lists(in: directory)[list] == version else { return }
        try Self.setAside(list, as: end)
    }

    /// Renames a list to `NAME.done`, or to `NAME.2.done` and so on if that exists: it may be the record of a list of the
    /// same name.
    private static func setAside(_ list: String, as end: String) throws {
        let names = (1...).lazy.map { $0 == 1 ? "\(list).\(end)" : "\(list).\($0).\(end)" }
        let name = names.first { access($0, F_OK) != 0 }!
        guard rename(list, name) == 0 else {
            throw ExitStatus.printing(
                .jobFailed, "\(list) cannot be renamed to \(name): \(String(cString: strerror(errno)))")
        }
    }

    /// The size and the time of each list in the directory, by its path.
    private static func lists(in directory: String) throws -> [String: [Int]] {
        guard let entries = opendir(directory) else {
            throw ExitStatus.printing(.usage, "\(directory) cannot be read: \(String(cString: strerror(errno)))")
        }
        defer { closedir(entries) }
        var lists: [String: [Int]] = [:]
        while let entry = readdir(entries) {
            let name = withUnsafeBytes(of: entry.pointee.d_name) { bytes in
                String(decoding: bytes.prefix { $0 != 0 }, as: UTF8.self)
            }
            let path = "\(directory)/\(name)"
            var status = stat()
            guard !name.hasPrefix("."), !name.hasSuffix(".done"), !name.hasSuffix(".failed"),
                stat(path, &status) == 0, status.st_mode & S_IFMT == S_IFREG
            else { continue }
            lists[path] = [status.st_size, status.st_mtim.tv_sec, status.st_mtim.tv_nsec]
        }
        return lists
    }
}
