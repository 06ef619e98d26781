import HaulContract
import Logging

/// Writes one JSON object per line. Numbers and booleans of the metadata stay JSON numbers and booleans.
enum JSONLine {
    static func line(_ entry: LogFormat.Entry) -> String {
        var object = JSONObject()
        object.set("time", entry.time)
        object.set("level", entry.level.rawValue)
        object.set("msg", json: quoted(entry.message))
        for (name, value) in entry.fields { object.set(name, json: json(value)) }
        return object.text + "\n"
    }

    private static func json(_ value: Logger.Metadata.Value) -> String {
        switch value {
        case .string(let text): return quoted(text)
        case .stringConvertible(let value):
            let isNumber = value is any BinaryInteger || (value as? Double)?.isFinite == true || value is Bool
            return isNumber ? "\(value)" : quoted("\(value)")
        case .array(let values): return "[\(values.map(json).joined(separator: ","))]"
        case .dictionary(let members):
            var object = JSONObject()
            for (name, value) in LogFormat.sorted(members) { object.set(name, json: json(value)) }
            return object.text
        }
    }

    private static func quoted(_ text: String) -> String {
        let quoted = JSON.quoted(text)
        return quoted.utf8.allSatisfy { $0 < 0x80 }
            ? quoted : quoted.escaped { !$0.isASCII && $0.isInvisible ? $0.escaped : nil }
    }
}
