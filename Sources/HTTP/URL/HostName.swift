import CHaulCurl
import Glibc

/// Host names as DNS knows them.
package enum HostName {
    /// libcurl and libidn2 read names in the encoding of the thread's locale. A service has none.
    nonisolated(unsafe) private static let locale = newlocale(1 << LC_CTYPE, "C.UTF-8", nil)

    /// An international name in ASCII and lower case, as libcurl converts it: `bücher.example` becomes
    /// `xn--bcher-kva.example`. nil if it is not a valid name.
    package static func ascii(_ name: String) -> String? {
        // A NUL would end the C string early.
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
        // The conversion turns some characters into others. A "/" among them would end the name early.
        return !text.isEmpty && text.utf8.allSatisfy(isNameCharacter) ? text : nil
    }

    private static func isNameCharacter(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "."),
            UInt8(ascii: "-"), UInt8(ascii: "_"):
            true
        default: false
        }
    }
}
