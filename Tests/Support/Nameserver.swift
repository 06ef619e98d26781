import Foundation
import Glibc
import HaulExecutors
import Synchronization

/// A nameserver on loopback that knows no addresses, for programs in mount namespaces of their own.
package final class Nameserver: Sendable {
    /// The response code of every reply (RFC 1035 section 4.1.1).
    package enum Answer: UInt8, Sendable {
        case serverFailure = 2
        case noSuchName = 3
    }

    private let descriptor: Int32
    private let received = Mutex(0)
    private let directory = TemporaryDirectory()
    private let address: String

    /// nil if port 53 may not be bound: usually only root may bind it.
    ///
    /// - Parameter answer: nil: the server receives every query and never responds.
    package init?(_ answer: Answer? = nil) {
        // A random address, because the port may be in use on the usual one.
        address = "127.\(Int.random(in: 1...254)).\(Int.random(in: 1...254)).\(Int.random(in: 1...254))"
        let opened = socket(AF_INET, Int32(SOCK_DGRAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
        var name = sockaddr_in()
        name.sin_family = sa_family_t(AF_INET)
        name.sin_port = UInt16(53).bigEndian
        inet_pton(AF_INET, address, &name.sin_addr)
        let status = withUnsafePointer(to: &name) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                bind(opened, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
            }
        }
        guard status == 0 else {
            close(opened)
            return nil
        }
        descriptor = opened
        // One attempt that lasts longer than any test waits.
        try? Data("nameserver \(address)\noptions timeout:30 attempts:1\n".utf8).write(
            to: URL(fileURLWithPath: directory.file("resolv.conf")))
        try? Data("hosts: files dns\n".utf8).write(to: URL(fileURLWithPath: directory.file("nsswitch.conf")))
        startThread(name: "nameserver") { [weak self, descriptor] in
            var question = [UInt8](repeating: 0, count: 512)
            while let (count, sender) = Self.receive(descriptor, &question) {
                self?.received.withLock { $0 += 1 }
                if let answer { Self.reply(descriptor, question[..<count], answer, to: sender) }
            }
            // Close here and nowhere else: the number of a closed descriptor may be reused at once.
            close(descriptor)
        }
    }

    private static func receive(_ descriptor: Int32, _ question: inout [UInt8]) -> (Int, sockaddr_in)? {
        var sender = sockaddr_in()
        var length = socklen_t(MemoryLayout<sockaddr_in>.size)
        let count = withUnsafeMutablePointer(to: &sender) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                recvfrom(descriptor, &question, question.count, 0, $0, &length)
            }
        }
        return count > 0 ? (count, sender) : nil
    }

    /// Repeats the question, as a response with a code and no records.
    private static func reply(
        _ descriptor: Int32, _ question: ArraySlice<UInt8>, _ answer: Answer, to sender: sockaddr_in
    ) {
        guard question.count > 12 else { return }
        // The query may have an extension (EDNS) after the question. The response has none.
        let name = question[12...].firstIndex(of: 0) ?? question.endIndex - 5
        var reply = Array(question[..<min(name + 5, question.endIndex)])
        (reply[2], reply[3]) = (0x81, 0x80 | answer.rawValue)
        for index in 6..<12 { reply[index] = 0 }
        _ = withUnsafePointer(to: sender) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                sendto(descriptor, reply, reply.count, 0, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
            }
        }
    }

    deinit { shutdown(descriptor, Int32(SHUT_RDWR)) }

    package var questions: Int { received.withLock { $0 } }

    /// Shell lines that make this the nameserver, for `PrivateMounts`.
    package var setup: String {
        ["resolv.conf", "nsswitch.conf"].map { "mount --bind \(directory.file($0)) /etc/\($0)" }.joined(separator: "\n")
    }
}
