import Glibc
import HaulContract
import HaulTerminal

/// Tells systemd how a service is (sd_notify(3)), by datagrams to the socket that it names. Without a socket it tells nothing.
struct ServiceManager: Sendable {
    private let address: [UInt8]?
    /// How often systemd wants to hear that the service is alive; nil if it does not.
    let watchdog: Duration?

    /// As the environment says.
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

    /// systemd may be restarting: what it does not take is not worth waiting for.
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

    /// A path, or a name of the abstract namespace behind "@".
    private static func address(_ text: String) -> [UInt8]? {
        guard text.hasPrefix("/") || text.hasPrefix("@") else { return nil }
        var name = Array(text.utf8)
        var place = sockaddr_un()
        guard name.count < MemoryLayout.size(ofValue: place.sun_path) else { return nil }
        if name[0] == UInt8(ascii: "@") { name[0] = 0 }
        place.sun_family = sa_family_t(AF_UNIX)
        withUnsafeMutableBytes(of: &place.sun_path) { $0.copyBytes(from: name) }
        let size = MemoryLayout<sockaddr_un>.offset(of: \.sun_path)! + name.count + (name[0] == 0 ? 0 : 1)
        return withUnsafeBytes(of: &place) { Array($0.prefix(size)) }
    }
}
