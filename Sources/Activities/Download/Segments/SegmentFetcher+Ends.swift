import HaulContract
import HaulHTTP
import HaulStorage
import Synchronization

// What follows when a request gets its response, and when a response ends.
extension SegmentFetcher {
    mutating func opened(
        _ id: Int, _ result: Result<PartRequest.Response, TransferError>, _ group: inout TaskGroup<Notice>
    ) -> Result<Outcome, TransferError>? {
        guard let connection = connections[id] else { return nil }
        if case .success(.part(let transfer, let finalURL, let entity, let length)) = result {
            connections[id]!.transfer = transfer
            download.state.withLock { state in
                state.mirrors[connection.mirror].finalURL = finalURL
                state.mirrors[connection.mirror].entity = entity
                let mirror = state.mirrors[connection.mirror]
                let isSame =
                    mirror.source == state.generation?.source
                    && finalURL.resource == state.generation?.entity.resource
                if !isSame {
                    state.generation?.isMixed = true
                } else if state.generation?.sourceResource == "" {
                    state.generation?.sourceResource = mirror.sourceResource
                }
                // The part has the job's media type, or an earlier response had it.
                if let wanted = download.job.contentType { state.generation?.contentType = MediaType.essence(wanted) }
            }
            failures.recordResponse()
            let wanted = plan.connections[id].map { $0.end - $0.position } ?? 0
            connections[id]!.isShort = length < min(wanted, ConnectionFailures.minPart)
            receive(id, transfer, length: length, &group)
            for action in plan.opened(id, length: length, now: now) { perform(action) }
            return nil
        }
        connections[id] = nil
        switch result {
        case .failure(.failed(let failure)), .success(.refused(.fail(let failure))):
            download.backOff(connection.host, after: failure)
        default: break
        }
        download.context.hosts.leave(connection.host)
        let hasOthers = plan.connections.keys.contains { $0 != id }
        switch result {
        case .failure(.cancelled): return .failure(.cancelled)
        case .failure(.noSpace): return .failure(.noSpace)
        case .failure(.failed(let failure)), .success(.refused(.fail(let failure))):
            return refused(id, connection, failure, hasOthers: hasOthers)
        case .success(.refused(.askWithoutIfRange)):
            download.state.withLock { $0.mirrors[connection.mirror].honoursIfRange = false }
            plan.refused(id, for: 0, now: now)
        case .success(.refused(let decision)):
            let why = decision.why ?? "the server sent something that was not requested"
            if dropMirror(connection.mirror) {
                plan.refused(id, for: 0, now: now)
            } else if hasOthers || !connection.isOnly {
                plan.refused(id, for: .infinity, now: now)
            } else {
                if case .restartWhole = decision { download.state.withLock { $0.isAlone = true } }
                return .success(.restart(why: why))
            }
        case .success(.unverifiable):
            download.state.withLock { $0.mirrors[connection.mirror].isUnverifiable = true }
            plan.refused(id, for: 0, now: now)
        case .success(.part): break
        }
        return nil
    }

    /// Stops using a mirror, if bytes of mirrors may be mixed. False if they may not be, or if no other mirror is left.
    private func dropMirror(_ index: Int) -> Bool {
        download.isProven && download.state.withLock { $0.mirrors.drop(index) }
    }

    private mutating func refused(
        _ id: Int, _ connection: Connection, _ failure: Failure, hasOthers: Bool
    ) -> Result<Outcome, TransferError>? {
        if Mirrors.isToBlame(for: failure), dropMirror(connection.mirror) {
            plan.refused(id, for: 0, now: now)
            return nil
        }
        guard hasOthers || !connection.isOnly else { return .failure(.failed(failure)) }
        // Running connections go on. An extra connection was only meant to help.
        plan.refused(id, for: failures.refused(failure), now: now)
        return nil
    }

    mutating func ended(
        _ id: Int, _ result: Result<TransferEnd, TransferError>
    ) async -> Result<Outcome, TransferError>? {
        guard let connection = connections.removeValue(forKey: id), let transfer = connection.transfer else {
            return nil
        }
        download.end(id, transfer)
        download.context.hosts.leave(connection.host)
        let isDropped = plan.connections[id] == nil
        for action in plan.ended(id, at: connection.start + transfer.progress.received, now: now) { perform(action) }
        let error: TransferError
        switch result {
        case .success where !connection.isShort:
            failures.recordCompletePart()
            return nil
        case .success:
            error = TransferError(
                .incomplete, "the server sends \(transfer.progress.received) bytes in response to a request for more")
        case .failure(let thrown): error = thrown
        }
        if let error = partial.error { return .failure(error) }
        if case .failed(let failure) = error, failure.code == .badResponse, transfer.head.length == .chunked {
            // libcurl delivers a chunk before it sees that the size was wrong, and then nothing shows which of the
            // response's bytes belong to the framing. A checkpoint or a part of an object may have them already.
            _ = download.state.withLock { $0.mirrors.drop(connection.mirror) }
            return .success(.damaged(why: failure.message))
        }
        guard case .failed(let failure) = error, !isDropped else { return isDropped ? nil : .failure(error) }
        let delay = failures.broke(after: transfer.progress.received, failure)
        guard plan.connections.isEmpty else {
            if delay > 0 { plan.refused(id, for: delay, now: now) }
            return nil
        }
        guard download.isResumable else { return .failure(error) }
        if failures.mayReplace(failure, written: partial.written.count, of: total) { return nil }
        // Another mirror may have the rest.
        return Mirrors.isToBlame(for: failure.code) && dropMirror(connection.mirror) ? nil : .failure(error)
    }

    /// Handles an event that comes after the outcome is known, and releases its connection.
    mutating func release(_ notice: Notice) {
        switch notice {
        case .tick, .waitCancelled: break
        case .opened(let id, _), .ended(let id, _):
            guard let connection = connections.removeValue(forKey: id) else { return }
            if let transfer = connection.transfer { download.end(id, transfer) }
            download.context.hosts.leave(connection.host)
        }
    }
}
