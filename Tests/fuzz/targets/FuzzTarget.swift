import Glibc

/// A parser of foreign text, with the properties that hold for every input. A broken property traps.
protocol FuzzTarget {
    static func run(_ bytes: UnsafeRawBufferPointer)
}

private let targets: [String: any FuzzTarget.Type] = [
    "job": JobFuzz.self, "disposition": DispositionFuzz.self, "range": ContentRangeFuzz.self, "digest": DigestFuzz.self,
    "date": DateFuzz.self, "url": URLFuzz.self, "head": HeadFuzz.self, "reply": ReplyFuzz.self,
]

/// The environment names the target, so that one binary has all of them.
private let target: any FuzzTarget.Type = {
    guard let target = getenv("FUZZ_TARGET").flatMap({ targets[String(cString: $0)] }) else {
        fatalError("FUZZ_TARGET must be one of \(targets.keys.sorted())")
    }
    return target
}()

@_cdecl("LLVMFuzzerTestOneInput")
public func fuzz(_ data: UnsafeRawPointer?, _ count: Int) -> CInt {
    target.run(UnsafeRawBufferPointer(start: data, count: count))
    return 0
}

extension UnsafeRawBufferPointer {
    /// The bytes decoded as header fields are.
    var text: String { String(decoding: self, as: UTF8.self) }

    /// Two texts, separated by the first line feed.
    var twoTexts: (String, String) {
        let index = firstIndex(of: UInt8(ascii: "\n")) ?? endIndex
        return (
            String(decoding: self[..<index], as: UTF8.self), String(decoding: self[index...].dropFirst(), as: UTF8.self)
        )
    }
}
