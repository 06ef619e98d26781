import HaulContract
import HaulExecutors
import HaulHTTP
import Synchronization

// A new generation of the partial file.
extension Download {
    /// Opens one beside the final name, with room for all of the entity, and writes `bytes` if they are here already. What is
    /// in the way of a file that `isWhole` shows when it gets its name. Blocks.
    @discardableResult
    func create(
        for first: FirstResponse, with bytes: [UInt8] = [], isWhole: Bool = false
    ) throws(TransferError) -> OutputFile {
        let target = try Target(
            job.path, suggested: suggestedName(first.transfer.head, first.url), in: context.store)
        if !isWhole { try target.check(job.ifExists, mayReplace: mayReplace(target)) }
        let used = state.withLock { $0.partial?.generation }
        // The token names a run's first generation; a restart within the run adds to it.
        let generation =
            used == nil && resume?.generation != token
            ? token : token + "." + String(UInt32.random(in: 0...(.max)), radix: 16)
        let partial = try PartialFile.create(
            in: target.directory, key: key, generation: generation, run: token,
            mode: context.attributes.modeWhileWriting,
            alone: isNew && used == nil)
        let output = OutputFile(
            descriptor: partial.descriptor, path: context.engine.path, durability: context.durability,
            digest: judge(of: first.entity)?.algorithm)
        state.withLock { state in
            state.output = output
            state.partial = partial
            state.target = target
            state.entity = first.entity
            state.source = MaskedURL.text(state.mirrors[state.mirrors.current].url)
            state.isMixed = false
            state.base = 0
            state.checkpointed = nil
        }
        try output.reserve(first.entity.total, keepFree: context.store.keptFree)
        try output.write(bytes)
        return output
    }

    /// Whether what has the final name is the job's own: what it finished before, or placed in a run that nobody heard of.
    func mayReplace(_ target: Target) -> Bool {
        target.isOwn(completed, store: context.store) || target.isUnsettled(key, in: context.store)
    }
}
