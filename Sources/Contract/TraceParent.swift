/// The `traceparent` of W3C Trace Context: version 00, in lower case.
package enum TraceParent {
    /// Returns `text` if it is valid: `00-<32 digits>-<16 digits>-<2 digits>`, where neither id is all zeros.
    package static func valid(_ text: String) -> String? {
        let parts = text.utf8.split(separator: UInt8(ascii: "-"), omittingEmptySubsequences: false)
        guard parts.map(\.count) == [2, 32, 16, 2], parts[0].elementsEqual("00".utf8),
            parts.allSatisfy({ $0.allSatisfy(isDigit) }),
            parts[1...2].allSatisfy({ part in part.contains { $0 != UInt8(ascii: "0") } })
        else { return nil }
        return text
    }

    private static func isDigit(_ byte: UInt8) -> Bool {
        (0x30...0x39).contains(byte) || (0x61...0x66).contains(byte)
    }
}

extension Job {
    /// The trace of the job's producer: the member `traceparent` of `meta`, if valid.
    package var traceParent: String? {
        // Few jobs have a trace. The cheap checks come first, to avoid parsing a meta of up to 4 KiB.
        guard let meta, meta.utf8.count >= 70, meta.contains("traceparent"), let object = try? JSON(meta) else {
            return nil
        }
        return object["traceparent"]?.string.flatMap(TraceParent.valid)
    }

    /// The header fields of the job's requests: `headers`, and the producer's `traceparent` unless `headers` has one.
    package var requestHeaders: [HeaderField] {
        guard let traceParent, !headers.contains(where: { $0.name.lowercased() == "traceparent" }) else {
            return headers
        }
        return headers + [HeaderField("traceparent", traceParent)]
    }
}
