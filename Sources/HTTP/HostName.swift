import CHaulCurl
import Glibc

/// Names of hosts as DNS knows them.
package enum HostName {
    /// libcurl, or libidn2 beneath it, reads names in the encoding of the thread's locale, which a service has none of.
    nonisolated(unsafe) private static let locale = newlocale(1 << LC_CTYPE, "C.UTF-8", nil)

    /// An international name in ASCII and lower case, as libcurl makes it: `bücher.example` is `xn--bcher-kva.example`. nil if
    /// it cannot be one.
    package static func ascii(_ name: String) -> String? {
        // To C a text ends at a NUL.
        guard !name.utf8.contains(0), let parts = curl_url() else { return nil }
        let previous = uselocale(locale)
        var host: UnsafeMutablePointer<CChar>?
        defer {
            curl_free(host)
            uselocale(previous)
            curl_url_cleanup(parts)
        }
        guard curl_url_set(parts, CURLUPART_HOST, name, 0) == CURLUE_OK,
            curl_url_get(parts, CURLUPART_HOST, &host, UInt32(CURLU_PUNYCODE)) == CURLUE_OK, let host
        else { return nil }
        let text = String(cString: host).lowercased()
        // Some characters become others, a "/" among them, that would end the name where nobody expects it.
        return !text.isEmpty && text.utf8.allSatisfy(isOfName) ? text : nil
    }

    private static func isOfName(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "."),
            UInt8(ascii: "-"), UInt8(ascii: "_"):
            true
        default: false
        }
    }
}
