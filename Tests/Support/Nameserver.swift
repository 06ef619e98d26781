import Executors
import Foundation
import Glibc
import Synchronization

/// A nameserver on loopback that takes every question and never answers, for programs in mounts of their own.
package final class SilentNameserver: Sendable {
    private let descriptor: Int32
    private let heard = Mutex(0)
    private let directory = TemporaryDirectory()
    private let address: String

    /// nil where its port may not be opened: only root may, as a rule.
    package init?() {
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
            while recv(descriptor, &question, question.count, 0) > 0 { self?.heard.withLock { $0 += 1 } }
            // Here and nowhere else: its number may be another's at once.
            close(descriptor)
        }
    }

    deinit { shutdown(descriptor, Int32(SHUT_RDWR)) }

    package var questions: Int { heard.withLock { $0 } }

    /// Makes it the nameserver, for `PrivateMounts`.
    package var setup: String {
        ["resolv.conf", "nsswitch.conf"].map { "mount --bind \(directory.file($0)) /etc/\($0)" }.joined(separator: "\n")
    }
}
