import Foundation
import Glibc
import HaulExecutors
import Synchronization

/// A nameserver on loopback that has no addresses to tell, for programs in mounts of their own.
package final class Nameserver: Sendable {
    /// What every question is answered with (RFC 1035 section 4.1.1).
    package enum Answer: UInt8, Sendable {
        case trouble = 2
        case noSuchName = 3
    }

    private let descriptor: Int32
    private let heard = Mutex(0)
    private let directory = TemporaryDirectory()
    private let address: String

    /// nil where its port may not be opened: only root may, as a rule.
    ///
    /// Without an `answer` it takes every question and stays silent.
    package init?(_ answer: Answer? = nil) {
        // An address of its own: the port of the usual one may be in use.
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
        // One try that lasts longer than any test waits.
        try? Data("nameserver \(address)\noptions timeout:30 attempts:1\n".utf8).write(
            to: URL(fileURLWithPath: directory.file("resolv.conf")))
        try? Data("hosts: files dns\n".utf8).write(to: URL(fileURLWithPath: directory.file("nsswitch.conf")))
        startThread(name: "nameserver") { [weak self, descriptor] in
            var question = [UInt8](repeating: 0, count: 512)
            while let (count, sender) = Self.receive(descriptor, &question) {
                self?.heard.withLock { $0 += 1 }
                if let answer { Self.reply(descriptor, question[..<count], answer, to: sender) }
            }
            // Here and nowhere else: its number may be another's at once.
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

    /// The question again, as a response with a code and no records.
    private static func reply(
        _ descriptor: Int32, _ question: ArraySlice<UInt8>, _ answer: Answer, to sender: sockaddr_in
    ) {
        guard question.count > 12 else { return }
        // What follows the question is about extensions, which the response has none of.
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

    package var questions: Int { heard.withLock { $0 } }

    /// Makes it the nameserver, for `PrivateMounts`.
    package var setup: String {
        ["resolv.conf", "nsswitch.conf"].map { "mount --bind \(directory.file($0)) /etc/\($0)" }.joined(separator: "\n")
    }
}
