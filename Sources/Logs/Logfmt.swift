import HaulContract
import Logging

/// Writes `time=… level=info msg="…" key=value`. A value is quoted if it is empty, or contains blanks, quotes or other
/// characters that would make its end unclear.
enum Logfmt {
    static func line(_ entry: LogFormat.Entry) -> String {
        var line = "time=\(entry.time) level=\(entry.level.rawValue) msg=\(value(entry.message))"
        for (name, value) in entry.fields { line += " \(key(name))=\(self.value(value.description))" }
        return line + "\n"
    }

    private static func key(_ name: String) -> String {
        guard !name.isEmpty, name.unicodeScalars.allSatisfy(isKeyCharacter) else {
            let kept = name.unicodeScalars.map { isKeyCharacter($0) ? Character($0) : "_" }
            return kept.isEmpty ? "_" : String(kept)
        }
        return name
    }

    private static func isKeyCharacter(_ scalar: Unicode.Scalar) -> Bool {
        scalar.isASCII && (scalar.properties.isAlphabetic || "0123456789_.-".unicodeScalars.contains(scalar))
    }

    private static func value(_ text: String) -> String {
        let isBare = text.utf8.allSatisfy { $0 > 0x20 && $0 < 0x7F && $0 != 0x22 && $0 != 0x3D && $0 != 0x5C }
        if isBare, !text.isEmpty { return text }
        return "\"" + text.escaped { JSON.escape($0) ?? ($0.isInvisible ? $0.escaped : nil) } + "\""
    }
}
