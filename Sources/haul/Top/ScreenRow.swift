import HaulTerminal

/// How a piece of a screen looks.
struct Style: Equatable, Sendable {
    enum Color: Int, Sendable { case red = 31, green = 32, yellow = 33, blue = 34, cyan = 36 }
    var color: Color?
    var isBold = false
    var isDim = false
    var isReversed = false

    static let plain = Style()
    static let bold = Style(isBold: true)
    static let dim = Style(isDim: true)
    static let reversed = Style(isReversed: true)
    static let bad = Style(color: .red, isBold: true)
    static let good = Style(color: .green)
    static let warning = Style(color: .yellow)
    static let title = Style(color: .cyan, isBold: true)

    /// The escape sequence that sets the style (SGR, ECMA-48). `isColored` is false with NO_COLOR
    /// (https://no-color.org).
    func sequence(isColored: Bool) -> String {
        var codes = ["0"]
        if isBold { codes.append("1") }
        if isDim { codes.append("2") }
        if isReversed { codes.append("7") }
        if isColored, let color { codes.append(String(color.rawValue)) }
        return "\u{1B}[\(codes.joined(separator: ";"))m"
    }
}

/// A row of a screen: pieces of text, each of one style. All text is made `printable`, because producers and servers
/// wrote it.
struct ScreenRow: Equatable, Sendable {
    private(set) var pieces: [(text: String, style: Style)] = []

    init(_ text: String = "", _ style: Style = .plain) { add(text, style) }

    mutating func add(_ text: String, _ style: Style = .plain) {
        if !text.isEmpty { pieces.append((text.printable, style)) }
    }

    mutating func add(_ row: ScreenRow) { pieces += row.pieces }

    var text: String { pieces.map(\.text).joined() }
    var columns: Int { pieces.reduce(0) { $0 + Columns.of($1.text) } }

    /// The row in exactly `width` columns: cut, or filled with spaces, which are reversed if the last piece is.
    func fitted(to width: Int) -> ScreenRow {
        var result = ScreenRow()
        var available = width
        for piece in pieces where available > 0 {
            let text = piece.text.truncated(to: available)
            result.add(text, piece.style)
            available -= Columns.of(text)
        }
        if available > 0 {
            result.add(String.spaces(available), pieces.last?.style.isReversed == true ? .reversed : .plain)
        }
        return result
    }

    /// The text of the row in the style of the selection.
    func highlighted() -> ScreenRow { ScreenRow(text, .reversed) }

    /// The text with its escape sequences.
    func encoded(isColored: Bool) -> String {
        var result = ""
        var style = Style.plain
        for piece in pieces {
            if piece.style != style { result += piece.style.sequence(isColored: isColored) }
            style = piece.style
            result += piece.text
        }
        return style == .plain ? result : result + Style.plain.sequence(isColored: false)
    }

    static func == (one: ScreenRow, other: ScreenRow) -> Bool {
        one.pieces.count == other.pieces.count
            && zip(one.pieces, other.pieces).allSatisfy { $0.text == $1.text && $0.style == $1.style }
    }
}

/// Draws numbers over time as a row of small bars.
enum Sparkline {
    /// A bar for each of the last `width` values, the newest at the right. The largest of them has the full height.
    static func text(_ values: [Double], width: Int, isUnicode: Bool) -> String {
        let signs = Array(isUnicode ? "▁▂▃▄▅▆▇█" : "_.-:=+*#")
        let shown = values.suffix(max(0, width))
        let peak = shown.max() ?? 0
        return String.spaces(width - shown.count)
            + String(
                shown.map { value in
                    guard peak > 0, value > 0 else { return signs[0] }
                    return signs[min(signs.count - 1, Int(value / peak * Double(signs.count - 1) + 0.5))]
                })
    }
}
