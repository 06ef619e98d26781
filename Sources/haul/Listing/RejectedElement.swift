import HaulBus
import HaulContract
import HaulTerminal

/// An entry of `haul:{NAME}:rejected`: an element that is not a valid job.
struct RejectedElement {
    let at: Int64
    let reason: String
    /// The first 4096 bytes of the element, as it was pushed, with its secrets.
    let element: String
    let id: String
    /// The URL without its secrets. Empty if it does not begin with a scheme: then a password cannot be recognized.
    let url: String
    private let fields: [String]

    /// nil if no worker has written the entry.
    init?(_ text: String) {
        guard let json = try? JSON(text), let reason = json["reason"]?.string else { return nil }
        at = json["at"]?.integer ?? 0
        self.reason = reason
        element = json["element"]?.string ?? ""
        let pushed = try? JSON(element)
        // The id may be any text. Only a valid id is shown.
        id = pushed?["id"]?.string.flatMap { JobField.isID($0) ? $0 : nil } ?? ""
        let first = pushed?["url"]?.string ?? pushed?["urls"]?.array?.first?.string
        url =
            first.flatMap {
                $0.firstMatch(of: /^[a-z][a-z0-9+.-]*:\/\//.ignoresCase()) != nil ? MaskedURL.text($0) : nil
            } ?? ""
        fields = pushed?.members?.map(\.name) ?? []
    }

    /// The element without its values, which may be secrets.
    var shape: String {
        if !url.isEmpty { return url }
        if fields.isEmpty { return "\(element.utf8.count) bytes" }
        return "{" + fields.prefix(8).joined(separator: ", ") + (fields.count > 8 ? ", …" : "") + "}"
    }

    /// - Parameter includesElement: Include the element itself, with its secrets.
    func json(includesElement: Bool) -> String {
        var object = JSONObject()
        object.set("at", at)
        object.set("reason", reason)
        if !id.isEmpty { object.set("id", id) }
        if !url.isEmpty { object.set("url", url) }
        object.set("bytes", element.utf8.count)
        if includesElement { object.set("element", element) }
        return object.text
    }

    static func lines(_ elements: [RejectedElement], includesElement: Bool, now: Int64, width: Int?) -> [String] {
        var table = Table([
            .init(title: "AGE", isNumber: true), .init(title: "ID", minWidth: 8),
            .init(title: "REASON", minWidth: 20), .init(title: "ELEMENT", minWidth: 12),
        ])
        for entry in elements {
            table.add([Age.text(now - entry.at), entry.id, entry.reason, includesElement ? entry.element : entry.shape])
        }
        return table.lines(width: includesElement ? nil : width)
    }
}
