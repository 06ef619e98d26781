import CCurl
import Contract
import Executors
import Glibc

/// One exchange with a server, on the loop's thread only: libcurl's handle, its callbacks, and where the body goes.
final class TransferTask {
    enum Body {
        /// Before the head is complete.
        case none
        /// The head is out; libcurl is held at the first byte until somebody says where the body goes.
        case held
        case file(OutputFile, position: Int64, end: Int64?)
        case memory([UInt8], limit: Int)
        case discard(left: Int)
    }

    let id: UInt64
    let easy: UnsafeMutableRawPointer
    let request: Request
    let policy: AddressPolicy
    let progress = TransferProgress()
    var headerList: UnsafeMutablePointer<curl_slist>?

    private var status = 0
    private var headers = HeaderFields()
    private var headerBytes = 0
    private(set) var isHeadComplete = false
    var body = Body.none
    private var block: Block?
    /// Why libcurl's reader is held back, if it is.
    enum Pause { case undecided, noBlock, limit }
    var pause: Pause?
    /// What a callback has against going on; it tells more than libcurl's own error.
    var objection: TransferError?
    private(set) var isOverlong = false
    private var fast = false
    private let begun = ContinuousClock.now
    /// Set when libcurl is done with it.
    var result: CURLcode?
    var onHead: ((ResponseHead) -> Void)?
    var onFailure: ((TransferError) -> Void)?
    var onEnd: CheckedContinuation<Result<TransferEnd, TransferError>, Never>?

    init(id: UInt64, easy: UnsafeMutableRawPointer, request: Request, policy: AddressPolicy) {
        (self.id, self.easy, self.request, self.policy) = (id, easy, request, policy)
    }

    // MARK: libcurl's callbacks

    func header(_ bytes: UnsafeRawBufferPointer) -> Int {
        // 1xx blocks come before the head, trailers after it, through the same callback.
        guard !isHeadComplete else { return bytes.count }
        headerBytes += bytes.count
        guard headerBytes <= 256 << 10 else {
            objection = .failed(Failure(.badResponse, "the response's header is larger than 256 KiB"))
            return 0
        }
        progress.touch()
        var line = Substring(String(decoding: bytes, as: UTF8.self))
        while let last = line.last, last == "\r\n" || last == "\n" || last == "\r" { line.removeLast() }
        if line.hasPrefix("HTTP/") {
            status = line.split(separator: " ").dropFirst().first.flatMap { Int($0) } ?? 0
            headers = HeaderFields()
        } else if line.isEmpty {
            guard status >= 200 else { return bytes.count }
            isHeadComplete = true
            body = .held
            onHead?(ResponseHead(status: status, headers: headers, url: request.url))
            onHead = nil
        } else {
            headers.append(line: line)
        }
        return bytes.count
    }

    /// Takes all of `bytes` or, where the reader must be held back, none of it.
    func write(_ bytes: UnsafeRawBufferPointer) -> Int {
        switch body {
        case .none, .held:
            pause = .undecided
            return ccurl_pause
        case .memory(var collected, let limit):
            body = .none
            guard collected.count + bytes.count <= limit else {
                objection = .failed(Failure(.badResponse, "the response is longer than \(limit) bytes"))
                return 0
            }
            collected.append(contentsOf: bytes)
            body = .memory(collected, limit: limit)
        case .discard(let left):
            guard bytes.count <= left else { return 0 }
            body = .discard(left: left - bytes.count)
        case .file(let file, let position, let end):
            if request.limits.contains(where: { $0.wait() > .zero }) {
                pause = .limit
                return ccurl_pause
            }
            let count = min(bytes.count, end.map { Int($0 - position) } ?? bytes.count)
            guard fill(UnsafeRawBufferPointer(rebasing: bytes[..<count]), at: position, of: file) else {
                pause = .noBlock
                return ccurl_pause
            }
            body = .file(file, position: position + Int64(count), end: end)
            for limit in request.limits { limit.take(count) }
            progress.add(count)
            if let failure = file.failure {
                objection = failure
                return 0
            }
            if count < bytes.count {
                isOverlong = true
                return 0
            }
            return count
        }
        progress.add(bytes.count)
        return bytes.count
    }

    private func fill(_ bytes: UnsafeRawBufferPointer, at position: Int64, of file: OutputFile) -> Bool {
        let room = block.map { $0.limit - $0.count } ?? 0
        var next: Block?
        if room < bytes.count {
            // Whole or not at all: libcurl gives the same bytes again after a pause.
            if !fast { fast = progress.received > 4 << 20 && Double(progress.received) / elapsed > 8e6 }
            guard let taken = file.take(large: fast) else { return false }
            taken.begin(at: position + Int64(room))
            if taken.limit < bytes.count - room {
                // A first block that ends at the next boundary may be too short: then it just ends later.
                taken.limit = taken.size
            }
            next = taken
        }
        if let block, room > 0 {
            let count = min(room, bytes.count)
            memcpy(block.bytes + block.count, bytes.baseAddress!, count)
            block.count += count
        }
        if let next {
            if let block { file.submit(block) }
            let rest = bytes.count - room
            memcpy(next.bytes, bytes.baseAddress! + room, rest)
            next.count = rest
            block = next
        }
        if let block, block.count == block.limit {
            file.submit(block)
            self.block = nil
        }
        return true
    }

    private var elapsed: Double { (ContinuousClock.now - begun).secondsValue }

    /// Hands over a half-filled block, if it is older than `age`.
    func flush(olderThan age: Duration = .zero) {
        guard let block, case .file(let file, _, _) = body, ContinuousClock.now - block.since >= age else { return }
        self.block = nil
        if block.count > 0 { file.submit(block) } else { file.giveBack(block) }
    }

    /// The first address family's socket, or the refusal of its address.
    func open(_ address: UnsafeMutablePointer<curl_sockaddr>) -> curl_socket_t {
        let text = withUnsafePointer(to: &address.pointee.addr) { AddressPolicy.text(of: $0) }
        if let text, let kind = policy.refusal(of: text) {
            refuse(text, kind)
            return ccurl_bad_socket
        }
        let descriptor = socket(
            address.pointee.family, address.pointee.socktype | Int32(SOCK_CLOEXEC.rawValue), address.pointee.protocol)
        if descriptor < 0 {
            objection = .failed(
                Failure(
                    .localLimit, "this worker is out of file descriptors or sockets: raise its limits or lower --slots")
            )
        } else if case .failed(let failure) = objection, failure.code == .addressForbidden {
            // Another address of the same name is allowed; that one is used.
            objection = nil
        }
        return descriptor
    }

    /// Whether the connection at hand, which may be a reused one, leads where we may go.
    func mayUse(_ address: String) -> Bool {
        guard let kind = policy.refusal(of: address) else { return true }
        refuse(address, kind)
        return false
    }

    private func refuse(_ address: String, _ kind: String) {
        objection = .failed(
            Failure(
                .addressForbidden,
                "the URL leads to \(address), a \(kind) address; allow it with --allow-private or --allow-address if that is meant"
            ))
    }

    // MARK: The end

    func outcome(of code: CURLcode) -> Result<TransferEnd, TransferError> {
        if isOverlong, case .file(_, let position, _) = body {
            return .success(TransferEnd(position: position, isWhole: true))
        }
        if let objection { return .failure(objection) }
        switch body {
        case .file(_, let position, let end):
            if let end, position >= end { return .success(TransferEnd(position: position, isWhole: true)) }
            guard code == CURLE_OK else { return .failure(.failed(CurlFailure.describe(code, request))) }
            guard end == nil else {
                return .failure(
                    .failed(
                        Failure(.incomplete, "the connection ended after \(progress.received) bytes of the response")))
            }
            return .success(TransferEnd(position: position, isWhole: true))
        case .memory(let bytes, _) where code == CURLE_OK:
            return .success(TransferEnd(position: 0, isWhole: true, bytes: bytes))
        case .discard: return .success(TransferEnd(position: 0, isWhole: code == CURLE_OK))
        default:
            return code == CURLE_OK
                ? .success(TransferEnd(position: 0, isWhole: true))
                : .failure(.failed(CurlFailure.describe(code, request)))
        }
    }
}

/// How a body ended.
package struct TransferEnd: Sendable {
    /// The byte of the file after the last one received.
    package let position: Int64
    package let isWhole: Bool
    /// What `collect` collected.
    package var bytes: [UInt8] = []
}
