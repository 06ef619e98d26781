import Glibc

/// This machine and process.
package enum Host {
    package static let name: String = {
        var buffer = [CChar](repeating: 0, count: 256)
        gethostname(&buffer, 255)
        return String(decoding: buffer.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
    }()

    package static var processID: Int32 { getpid() }
}
