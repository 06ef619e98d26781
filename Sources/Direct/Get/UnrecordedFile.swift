import Glibc
import HaulActivities
import HaulContract
import HaulExecutors
import HaulFileStore
import HaulHTTP
import HaulStorage
import HaulTerminal
import Synchronization

/// Decides whether a file that already has a download's name, and that no record describes, is the server's file.
final class UnrecordedFile: ExistingFile {
    /// The evidence that the existing file is the one that was asked for.
    enum Proof: Sendable {
        case checksum(Job.Checksum, authority: String)
        /// The server sends nothing newer.
        case notNewer
        /// The file has the server's size, and is not older. That makes it likely, and proves nothing.
        case size
    }

    private let item: GetItem
    private let store: String
    private let files: FileStore?
    /// The file that this download completed before. It may be replaced.
    private let own: CompletedFile?
    private let downloadLog: DownloadLog
    private let names: GetNames
    private let found = Mutex<Proof?>(nil)
    private struct Unfinished {
        var file: UnfinishedFile?
        /// A run continues from an unfinished file only once.
        var isTried = false
        /// The file that the whole may replace, because this run or an earlier one has begun to continue it.
        var replaceable: CompletedFile?
        var isDisproved = false
    }
    private let unfinished: Mutex<Unfinished>
    /// The file that `-N` may replace, as it was when the server offered something newer.
    private let older = Mutex<Status?>(nil)
    static let pool = BlockingPool(name: "existing files", limit: 4)

    let modifiedSince: String?

    /// - Parameters:
    ///   - hasOtherURL: The file of the likely name may be of another URL, whose date says nothing here.
    ///   - unfinished: The file of another program that an earlier run has begun to continue.
    init(
        _ item: GetItem, in store: any Store, own: CompletedFile?, hasOtherURL: Bool, unfinished: CompletedFile?,
        _ downloadLog: DownloadLog, _ names: GetNames
    ) {
        self.unfinished = Mutex(Unfinished(replaceable: unfinished))
        (self.item, self.store, self.own) = (item, store.id, own)
        files = store as? FileStore
        (self.downloadLog, self.names) = (downloadLog, names)
        // The version that this download has made is known by more than its date.
        let isOwn = own.map { Self.status(item.root + "/" + $0.file)?.matches($0) == true }
        modifiedSince = item.isOnlyNewer && isOwn != true && !hasOtherURL ? Self.date(of: item) : nil
    }

    /// The date of the file that has the likely name; nil if there is none. A file that aria2 has not finished was never
    /// the server's file, so its date says nothing. Nor does the date of a server that was less than a minute old when
    /// the file got it, because the server would answer 304 for a later version of the same second.
    private static func date(of item: GetItem) -> String? {
        guard let path = item.likelyPath.map({ item.root + "/" + $0 }), let status = status(path), status.isFile,
            access(path + Aria2Control.suffix, F_OK) != 0, !status.hasWeakServerDate
        else { return nil }
        return HTTPDate.text(status.seconds)
    }

    /// Whether anything has the name that the file will most likely get.
    var exists: Bool { item.likelyPath.flatMap { Self.status(item.root + "/" + $0) } != nil }

    /// The evidence for the file that was found; nil if none was accepted.
    var proof: Proof? { found.withLock { $0 } }

    /// The unfinished file of another program, if a checksum can prove the result: the run may continue from it. nil
    /// the second time.
    func takeUnfinished() -> UnfinishedFile? {
        unfinished.withLock { state in
            let file = state.file.take()
            if let file { state.replaceable = file.file }
            return file
        }
    }

    /// The bytes of the unfinished file are not those of the server's file, so that no copy of them is of use.
    var isDisproved: Bool { unfinished.withLock { $0.isDisproved } }

    var isCompared: Bool {
        unfinished.withLock { $0.replaceable != nil } || item.isOnlyNewer && item.ifExists != .overwrite
    }

    /// Whether `-N` may replace the file at `path`. Of a name that only the server gives, it replaces no file that this
    /// download has not made: otherwise the server would choose which file of the user is lost.
    private func mayBeReplacedByNewer(_ path: String) -> Bool { item.isOnlyNewer && path == item.likelyPath }

    /// Why `-N` does not replace the file at `path`, for a message: the server gives no date, or one that cannot be read.
    private func undated(_ path: String, _ entity: Entity) -> String {
        guard mayBeReplacedByNewer(path), entity.lastModified.flatMap(HTTPDate.parse) == nil else { return "" }
        return "; without a valid Last-Modified -N does not replace it"
    }

    func checkReplacement(by partial: any Partial, of entity: Entity) async throws(TransferError) {
        try checkNewer(partial, entity)
        try await checkUnfinished(partial)
    }

    /// A file may have been made or changed since the server named the download, or since an earlier run began it.
    private func checkNewer(_ partial: any Partial, _ entity: Entity) throws(TransferError) {
        guard item.isOnlyNewer, item.ifExists != .overwrite, let path = partial.location?.file,
            let status = Self.status(item.root + "/" + path),
            own.map({ $0.file == path && status.matches($0) }) != true,
            unfinished.withLock({ $0.replaceable.map { $0.file == path && status.matches($0) } }) != true
        else { return }
        // Without a date nothing says that the server's file is newer.
        if mayBeReplacedByNewer(path), let theirs = entity.lastModified.flatMap(HTTPDate.parse),
            theirs > status.seconds || older.withLock({ $0 == status })
        {
            return
        }
        throw refusal(path, "was made or changed during this download")
    }

    /// A server without ranges sends every byte itself, so the checksum says nothing about the unfinished file. If that is
    /// no part of the whole, it is another file, which would be lost.
    private func checkUnfinished(_ partial: any Partial) async throws(TransferError) {
        guard let old = unfinished.withLock({ $0.replaceable }), let hidden = partial.location?.name,
            let status = Self.status(item.root + "/" + old.file), status.matches(old)
        else { return }
        let (theirs, ours) = (item.root + "/" + old.file, item.root + "/" + item.folder + hidden)
        let isPart = await Self.pool.run {
            let control = Aria2Control(readable: theirs + Aria2Control.suffix)
            return UnfinishedFile.isPart(control?.written ?? ByteIntervals([0..<status.size]), of: theirs, in: ours)
        }
        guard isPart else { throw disproof(old.file) }
    }

    private func disproof(_ path: String) -> TransferError {
        unfinished.withLock { $0.isDisproved = true }
        return refusal(path, "exists, but its bytes do not belong to the file with the checksum")
    }

    /// The existing file, if it has the job's checksum. Then no server needs to be asked.
    func existingFileByChecksum() async -> CompletedFile? {
        guard item.ifExists == .reuse || item.ifExists == .skip, let wanted = item.job.checksum,
            let path = item.likelyPath, let status = Self.status(item.root + "/" + path), status.isFile
        else { return nil }
        guard await digest(path, wanted.algorithm) == wanted.digest else { return nil }
        found.withLock { $0 = .checksum(wanted, authority: "given") }
        let source = item.job.urls.first.map(MaskedURL.text) ?? ""
        let file = record(path, status, Entity(), source, by: nil)
        await removeControl(beside: file, isUnchanged: true)
        return file
    }

    /// Removes the control file of aria2 beside a file that this download has made, or that a checksum has proven.
    func removeControl(beside file: CompletedFile, isUnchanged: Bool) async {
        if isUnchanged { guard case .checksum = proof else { return } }
        await Aria2Control.remove(of: file.file, in: item.root)
    }

    func completedFile(for offer: Offer) async throws(TransferError) -> CompletedFile? {
        let path = try names.reserve(offered: offer.name, for: item)
        // Most files are not there, which one call finds out.
        var entry = stat()
        guard lstat(item.root + "/" + path, &entry) == 0 else { return nil }
        guard let status = Self.status(item.root + "/" + path) else {
            if item.ifExists == .rename || item.ifExists == .overwrite { return nil }
            throw refusal(path, "is a symbolic link that leads nowhere")
        }
        guard status.isFile else {
            if item.ifExists == .rename { return nil }
            throw .failed(
                Failure(
                    .fileExists,
                    "\(path) is a directory or a special file, which is never replaced: choose --if-exists rename, or another name with -o",
                    isFinal: true))
        }
        let owner = await downloadLog.owner(of: path, in: item.root)
        let known = owner?.completed.flatMap { status.matches($0) ? $0 : nil }
        let isOwn = known != nil && owner?.isFile(of: item.urls) == true
        if let own, own.file == path, status.matches(own), known == nil || isOwn { return nil }
        switch item.ifExists {
        case .overwrite where offer.isUnmodified:
            return try await checked(path, status, offer.entity, offer.source, or: .notNewer)
        case .overwrite, .rename: return nil
        case .skip where item.job.checksum != nil:
            return try await checked(path, status, offer.entity, offer.source, or: .notNewer)
        case .fail, .skip:
            let description = isOwn ? "" : Self.ownership(owner, known)
            throw refusal(path, description.isEmpty ? "exists" : description)
        case .reuse: break
        }
        if let file = try await foreign(path, status, offer, owner: known != nil && !isOwn ? owner : nil) {
            return file
        }
        // Another run has given the file its name, and not yet recorded that. Size and date say nothing about it.
        if known == nil, await files?.mayBelongToAnotherJob(path, besides: item.key) == true {
            throw refusal(
                path, "is the file of another haul get, which has not ended yet", or: "run the same command again")
        }
        if offer.isUnmodified { return try await checked(path, status, offer.entity, offer.source, or: .notNewer) }
        let control = await Self.pool.run { [item] in
            Aria2Control(readable: item.root + "/" + path + Aria2Control.suffix)
        }
        let theirs = offer.entity.lastModified.flatMap(HTTPDate.parse)
        let isNewer = theirs.map { $0 > status.seconds } ?? false
        if mayBeReplacedByNewer(path), theirs != nil {
            // Not all servers support If-Modified-Since. Of a date that proves nothing the length decides.
            let isSame = !status.hasWeakServerDate || (offer.entity.total.map { $0 == status.size } ?? true)
            if control == nil, !isNewer, isSame {
                return try await checked(path, status, offer.entity, offer.source, or: .notNewer)
            }
            older.withLock { $0 = status }
            return nil
        }
        let undated = undated(path, offer.entity)
        guard let total = offer.entity.total else {
            throw refusal(
                path, "exists (\(status.summary)), and the server does not announce the size of its own\(undated)")
        }
        if control != nil || status.size < total {
            if let error = unfinished(path, status, control, of: total, offer) { throw error }
            return nil
        }
        guard total == status.size else {
            throw refusal(path, "exists (\(status.summary)), and the server's has \(status.other(total))\(undated)")
        }
        if let wanted = item.job.checksum ?? offer.entity.digest {
            guard try await has(wanted, path, status) else {
                throw refusal(path, "exists (\(status.summary)), and has another \(wanted.algorithm.rawValue)")
            }
            let authority = item.job.checksum == nil ? "server's" : "given"
            return record(path, status, offer.entity, offer.source, by: .checksum(wanted, authority: authority))
        }
        guard theirs != nil else {
            throw refusal(path, "exists, has the server's size, and nothing proves that it is the same\(undated)")
        }
        guard !isNewer else {
            throw refusal(path, "exists (\(status.summary)), and the server's is newer", or: "-N")
        }
        let file = item.root + "/" + path
        guard await !Self.pool.run({ Self.hasHoles(file, size: total) }) else {
            throw refusal(
                path, "exists and has the server's size, but also holes: another program may not have finished it")
        }
        return record(path, status, offer.entity, offer.source, by: .size)
    }

    /// The record of a file that stays. If the user gave a checksum, only that proves it: status 0 would say that the
    /// file has the checksum.
    private func checked(
        _ path: String, _ status: Status, _ entity: Entity, _ source: String, or proof: Proof
    ) async throws(TransferError) -> CompletedFile {
        guard let wanted = item.job.checksum else { return record(path, status, entity, source, by: proof) }
        guard try await has(wanted, path, status) else {
            throw .failed(
                Failure(
                    .checksumMismatch,
                    "\(path) exists (\(status.summary)), and has another \(wanted.algorithm.rawValue): choose --if-exists overwrite or rename",
                    isFinal: true))
        }
        return record(path, status, entity, source, by: .checksum(wanted, authority: "given"))
    }

    /// A file that the log knows as another URL's. Size and date say nothing about it; only a digest does.
    private func foreign(
        _ path: String, _ status: Status, _ offer: Offer, owner: GetRecord?
    ) async throws(TransferError) -> CompletedFile? {
        guard let owner else { return nil }
        if offer.entity.total.map({ $0 == status.size }) ?? true,
            let wanted = item.job.checksum ?? offer.entity.digest,
            try await has(wanted, path, status)
        {
            let authority = item.job.checksum == nil ? "server's" : "given"
            return record(path, status, offer.entity, offer.source, by: .checksum(wanted, authority: authority))
        }
        throw refusal(path, Self.ownership(owner, owner.completed), or: "another name with -o")
    }

    private static func ownership(_ owner: GetRecord?, _ known: CompletedFile?) -> String {
        guard known != nil, let url = owner?.sourceURL else { return "" }
        return "is the file of \(MaskedURL.keepingQuery(url)), which an earlier haul get downloaded"
    }

    /// The refusal of a file that another program may not have finished. If the run can continue from its bytes,
    /// `takeUnfinished` returns it afterwards. nil if the server sends all bytes once more, because it has no ranges or
    /// because there was no byte to continue from: the whole may then replace the file, if `checkReplacement` agrees.
    private func unfinished(
        _ path: String, _ status: Status, _ control: Aria2Control?, of total: Int64, _ offer: Offer
    ) -> TransferError? {
        let undated = undated(path, offer.entity)
        let what =
            control.map { "exists, unfinished by aria2 (\(Units.bytes($0.written.count)))" }
            ?? "exists (\(status.summary))"
        guard control.map({ $0.total == total }) ?? true else {
            return refusal(path, "\(what); the server's has \(Units.bytes(total))")
        }
        let whole = control == nil ? status.other(total) : Units.bytes(total)
        // The whole takes the name of the file whose bytes it continues, which is not the name of a link.
        if Self.isLink(item.root + "/" + path) {
            return refusal(
                path, "\(what), is a symbolic link, and the server's has \(whole)\(undated)",
                or: "the path of the file itself with -o")
        }
        guard access(item.root + "/" + path, R_OK) == 0 else {
            return refusal(
                path, "\(what), cannot be read, and the server's has \(whole)\(undated)")
        }
        guard item.job.method == "GET", item.job.checksum ?? offer.entity.digest != nil else {
            return refusal(
                path, "\(what), and the server's has \(whole)\(undated)",
                or: "--checksum, which continues this file and verifies the result")
        }
        var file = record(path, status, offer.entity, offer.source, by: nil)
        // Without a source, the record never counts as a completed download of the URL.
        file.source = ""
        let written = control?.written ?? ByteIntervals([0..<status.size])
        let isTried = unfinished.withLock { state in
            defer { state.isTried = true }
            if !state.isTried {
                state.file = UnfinishedFile(file: file, written: written, entity: offer.entity, source: offer.source)
            }
            return state.isTried
        }
        guard isTried else { return refusal(path, what) }
        return offer.hasMismatch ? disproof(path) : nil
    }

    private func refusal(_ path: String, _ what: String, or other: String? = nil) -> TransferError {
        let choice =
            if item.isFollowed {
                "a Metalink that -M does not name replaces no file: choose --if-exists rename or skip, or -M"
            } else if item.isOnlyNewer, !mayBeReplacedByNewer(path) {
                "-N replaces no file that only the server names: give -o \(path), or choose --if-exists overwrite"
            } else { "choose --if-exists overwrite, rename or skip" + (other.map { ", or \($0)" } ?? "") }
        return .failed(Failure(.fileExists, "\(path) \(what): \(choice)", isFinal: true))
    }

    /// Whether the file has the checksum.
    ///
    /// - Throws: The refusal of a file that cannot be read, whose checksum is unknown.
    private func has(_ wanted: Job.Checksum, _ path: String, _ status: Status) async throws(TransferError) -> Bool {
        guard let digest = await digest(path, wanted.algorithm) else {
            throw refusal(
                path, "exists (\(status.summary)), and cannot be read to compare its \(wanted.algorithm.rawValue)")
        }
        return digest == wanted.digest
    }

    private func digest(_ path: String, _ algorithm: Job.Checksum.Algorithm) async -> String? {
        let file = item.root + "/" + path
        return await Self.pool.run { StreamDigest.hexadecimal(of: file, algorithm) }
    }

    private func record(
        _ path: String, _ status: Status, _ entity: Entity, _ source: String, by proof: Proof?
    ) -> CompletedFile {
        if let proof { found.withLock { $0 = proof } }
        var checksum: String?
        if case .checksum(let digest, _) = self.proof { checksum = digest.description }
        return CompletedFile(
            file: path, bytes: status.size, store: store, inode: status.inode, modified: status.nanoseconds,
            entity: entity, source: source, checksum: checksum, validated: 0)
    }
}
