import HaulContract

/// A checksum as a person writes it: `sha256:…` as in a job, `sha-256=…` as in aria2, `SHA256:…`, the digits alone, whose
/// number determines the algorithm, or `sha256-` and base 64 as in HTML (Subresource Integrity).
enum GivenChecksum {
    /// The checksum as a job has it. If the text is not a checksum, it is returned unchanged, and the job refuses it.
    static func normalized(_ text: String) -> String {
        let lower = text.lowercased()
        if lower.utf8.allSatisfy({ 48...57 ~= $0 || 97...102 ~= $0 }),
            let algorithm = Job.Checksum.Algorithm.allCases.first(where: { $0.hexadecimalDigits == lower.utf8.count })
        {
            return "\(algorithm.rawValue):\(lower)"
        }
        for algorithm in Job.Checksum.Algorithm.allCases {
            let name = algorithm.rawValue
            let dashed = name.replacing("sha", with: "sha-")
            for form in ["\(name):", "\(name)=", "\(dashed):", "\(dashed)="] where lower.hasPrefix(form) {
                return "\(name):\(lower.dropFirst(form.count))"
            }
            // The digits of base 64 have a case of their own.
            guard lower.hasPrefix("\(name)-"), let bytes = Base64.decode(text.utf8.dropFirst(name.utf8.count + 1)),
                bytes.count * 2 == algorithm.hexadecimalDigits
            else { continue }
            return "\(name):\(Hexadecimal.text(bytes))"
        }
        return text
    }
}
