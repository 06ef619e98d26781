import Glibc
import HaulContract
import HaulTerminal

/// Reports the state of a service to systemd, by datagrams to the socket in `NOTIFY_SOCKET` (sd_notify(3)). Without
/// that variable it does nothing.
struct ServiceManager: Sendable {
    private let address: [UInt8]?
    /// The maximum time that systemd allows between two calls of `alive`; nil if there is no watchdog.
    let watchdog: Duration?

    /// Reads the variables `NOTIFY_SOCKET`, `WATCHDOG_PID` and `WATCHDOG_USEC`.
    init() {
        address = Environment.text("NOTIFY_SOCKET").flatMap(Self.address)
        let isOurs = Environment.text("WATCHDOG_PID").map { Int32($0) == getpid() } ?? true
        let microseconds = Environment.text("WATCHDOG_USEC").flatMap { Int64($0) }
        watchdog = isOurs ? microseconds.flatMap { $0 > 0 ? .microseconds($0) : nil } : nil
    }

    func ready(_ status: String) { send("READY=1\nSTATUS=\(status)") }

    func alive(_ status: String) { send("WATCHDOG=1\nSTATUS=\(status)") }

    func status(_ status: String) { send("STATUS=\(status)") }

    func stopping(_ status: String) { send("STOPPING=1\nSTATUS=\(status)") }

    func reloading() {
        var time = timespec()
        clock_gettime(CLOCK_MONOTONIC, &time)
        send("RELOADING=1\nMONOTONIC_USEC=\(Int64(time.tv_sec) * 1_000_000 + Int64(time.tv_nsec) / 1000)")
    }

    /// Does not wait, and ignores errors: systemd may be restarting.
    private func send(_ text: String) {
        guard let address else { return }
        let descriptor = socket(AF_UNIX, Int32(SOCK_DGRAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
        guard descriptor >= 0 else { return }
        defer { close(descriptor) }
        let bytes = Array(text.utf8)
        _ = address.withUnsafeBytes { address in
            sendto(
                descriptor, bytes, bytes.count, Int32(MSG_NOSIGNAL) | Int32(MSG_DONTWAIT),
                address.assumingMemoryBound(to: sockaddr.self).baseAddress, socklen_t(address.count))
        }
    }

    /// The bytes of the socket address: of a path, or of an abstract name after "@".
    static func address(_ text: String) -> [UInt8]? {
        guard text.hasPrefix("/") || text.hasPrefix("@") else { return nil }
        var name = Array(text.utf8)
        var address = sockaddr_un()
        guard name.count < MemoryLayout.size(ofValue: address.sun_path) else { return nil }
        if name[0] == UInt8(ascii: "@") { name[0] = 0 }
        address.sun_family = sa_family_t(AF_UNIX)
        withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: name) }
        let size = MemoryLayout<sockaddr_un>.offset(of: \.sun_path)! + name.count + (name[0] == 0 ? 0 : 1)
        return withUnsafeBytes(of: &address) { Array($0.prefix(size)) }
    }
}
