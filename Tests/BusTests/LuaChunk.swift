/// The scopes of a Lua 5.1 chunk: which variable each name means, and what each function holds at one time.
///
/// It knows the syntax that the functions use: no methods, no `repeat`, no long comments.
struct LuaChunk {
    final class Function {
        let parent: Function?
        /// The most local variables that are alive at one place. Lua allows 200.
        fileprivate(set) var maxLive = 0
        /// Variables of outer functions. Lua allows 60.
        fileprivate(set) var outer: Set<ObjectIdentifier> = []
        fileprivate init(parent: Function?) { self.parent = parent }
    }

    final class Variable {
        let name: String
        let line: Int
        fileprivate let function: Function
        fileprivate init(_ token: Token, in function: Function) {
            (name, line, self.function) = (token.text, token.line, function)
        }
    }

    /// A name where it is used, and its variable; nil if no `local` declares it.
    struct Use {
        let name: String
        let line: Int
        let variable: Variable?
        /// `c` in `a.b.c`: the first name behind a dot.
        var member: String?
        /// Whether `function a.member()` or `a.member = …` gives it a value; for a name alone, whether it is assigned.
        var isWritten = false
    }

    fileprivate enum Kind { case name, keyword, text, number, sign, end }

    fileprivate struct Token {
        let kind: Kind
        let text: String
        let line: Int
    }

    struct Wrong: Error, CustomStringConvertible {
        let description: String
    }

    private(set) var functions: [Function] = []
    private(set) var uses: [Use] = []
    private var tokens: [Token]
    private var next = 0
    private var scopes: [[Variable]] = [[]]
    private var function = Function(parent: nil)

    init(_ source: String) throws(Wrong) {
        tokens = try Self.tokens(of: source)
        functions = [function]
        try block()
        guard current.kind == .end else { throw wrong() }
    }

    /// Whether a variable belongs to the chunk itself, and not to a function in it.
    func isChunkVariable(_ variable: Variable) -> Bool { variable.function === functions[0] }

    // MARK: Tokens

    private static let keywords: Set<String> = [
        "and", "break", "do", "else", "elseif", "end", "false", "for", "function", "if", "in", "local", "nil", "not",
        "or", "return", "then", "true", "while",
    ]

    private static let signs = ["...", "..", "==", "~=", "<=", ">="]

    private static func tokens(of source: String) throws(Wrong) -> [Token] {
        let bytes = Array(source.utf8)
        var result: [Token] = []
        var (at, line) = (0, 1)
        func has(_ text: String) -> Bool { bytes[at...].starts(with: text.utf8) }
        func isPartOfName(_ byte: UInt8) -> Bool {
            byte == UInt8(ascii: "_") || byte | 32 >= UInt8(ascii: "a") && byte | 32 <= UInt8(ascii: "z")
                || isDigit(byte)
        }
        func isDigit(_ byte: UInt8) -> Bool { byte >= UInt8(ascii: "0") && byte <= UInt8(ascii: "9") }
        while at < bytes.count {
            let begin = at
            let first = bytes[at]
            var kind = Kind.sign
            if first == UInt8(ascii: "\n") {
                line += 1
                at += 1
                continue
            } else if first == UInt8(ascii: " ") {
                at += 1
                continue
            } else if has("--") {
                while at < bytes.count, bytes[at] != UInt8(ascii: "\n") { at += 1 }
                continue
            } else if isDigit(first) {
                kind = .number
                while at < bytes.count, isPartOfName(bytes[at]) || bytes[at] == UInt8(ascii: "."), !has("..") {
                    at += 1
                }
            } else if isPartOfName(first) {
                kind = .name
                while at < bytes.count, isPartOfName(bytes[at]) { at += 1 }
            } else if first == UInt8(ascii: "'") || first == UInt8(ascii: "\"") {
                kind = .text
                at += 1
                while at < bytes.count, bytes[at] != first { at += bytes[at] == UInt8(ascii: "\\") ? 2 : 1 }
                at += 1
            } else if has("[[") {
                kind = .text
                while at < bytes.count, !has("]]") { at += 1 }
                at += 2
            } else if let sign = signs.first(where: has) {
                at += sign.utf8.count
            } else {
                at += 1
            }
            guard at <= bytes.count else { throw Wrong(description: "line \(line): a text has no end") }
            let text = String(decoding: bytes[begin..<at], as: UTF8.self)
            if kind == .name, keywords.contains(text) { kind = .keyword }
            result.append(Token(kind: kind, text: text, line: line))
            line += text.utf8.count { $0 == UInt8(ascii: "\n") }
        }
        return result + [Token(kind: .end, text: "", line: line)]
    }

    private var current: Token { tokens[next] }
    private func wrong() -> Wrong { Wrong(description: "line \(current.line): unexpected \(current.text)") }

    private func isNext(_ text: String) -> Bool {
        current.text == text && (current.kind == .keyword || current.kind == .sign)
    }

    private mutating func accept(_ text: String) -> Bool {
        guard isNext(text) else { return false }
        next += 1
        return true
    }

    private mutating func expect(_ text: String) throws(Wrong) { if !accept(text) { throw wrong() } }

    private mutating func name() throws(Wrong) -> Token {
        guard current.kind == .name else { throw wrong() }
        next += 1
        return tokens[next - 1]
    }

    // MARK: Scopes

    private mutating func declare(_ token: Token) {
        scopes[scopes.count - 1].append(Variable(token, in: function))
        function.maxLive = max(function.maxLive, scopes.joined().count { $0.function === function })
    }

    /// - Returns: The index of the use.
    private mutating func use(_ token: Token) -> Int {
        let variable = scopes.lazy.reversed().compactMap { scope in scope.last { $0.name == token.text } }.first
        var holder: Function? = function
        while let variable, let one = holder, one !== variable.function {
            one.outer.insert(ObjectIdentifier(variable))
            holder = one.parent
        }
        uses.append(Use(name: token.text, line: token.line, variable: variable))
        return uses.count - 1
    }

    private mutating func block() throws(Wrong) {
        scopes.append([])
        while current.kind != .end, !["end", "else", "elseif"].contains(where: isNext) {
            if try statement() { break }
        }
        scopes.removeLast()
    }

    // MARK: Statements

    /// - Returns: Whether it is the last one of its block.
    private mutating func statement() throws(Wrong) -> Bool {
        if accept("if") {
            try expression()
            try expect("then")
            try block()
            while accept("elseif") {
                try expression()
                try expect("then")
                try block()
            }
            if accept("else") { try block() }
            try expect("end")
        } else if accept("while") {
            try expression()
            try expect("do")
            try block()
            try expect("end")
        } else if accept("do") {
            try block()
            try expect("end")
        } else if accept("for") {
            var names = [try name()]
            while accept(",") { names.append(try name()) }
            if !accept("=") { try expect("in") }
            try expressions()
            try expect("do")
            scopes.append([])
            for one in names { declare(one) }
            try block()
            scopes.removeLast()
            try expect("end")
        } else if accept("function") {
            let target = use(try name())
            uses[target].isWritten = true
            if accept(".") { uses[target].member = try name().text }
            try body()
        } else if accept("local") {
            if accept("function") {
                declare(try name())
                try body()
            } else {
                var names = [try name()]
                while accept(",") { names.append(try name()) }
                if accept("=") { try expressions() }
                for one in names { declare(one) }
            }
        } else if accept("return") {
            if current.kind != .end, !["end", "else", "elseif", ";"].contains(where: isNext) { try expressions() }
            return true
        } else if accept("break") {
            return true
        } else if !accept(";") {
            var targets = [try suffixed()]
            while accept(",") { targets.append(try suffixed()) }
            if accept("=") {
                for case let target? in targets { uses[target].isWritten = true }
                try expressions()
            }
        }
        return false
    }

    private mutating func body() throws(Wrong) {
        let before = function
        function = Function(parent: before)
        functions.append(function)
        scopes.append([])
        try expect("(")
        while !accept(")") {
            if !accept("...") { declare(try name()) }
            _ = accept(",")
        }
        try block()
        try expect("end")
        scopes.removeLast()
        function = before
    }

    // MARK: Expressions

    private mutating func expressions() throws(Wrong) {
        try expression()
        while accept(",") { try expression() }
    }

    private static let binary: Set<String> = [
        "or", "and", "<", ">", "<=", ">=", "~=", "==", "..", "+", "-", "*", "/", "%", "^",
    ]

    private mutating func expression() throws(Wrong) {
        while ["not", "-", "#"].contains(where: isNext) { next += 1 }
        if current.kind == .text || current.kind == .number || ["nil", "true", "false", "..."].contains(where: isNext) {
            next += 1
        } else if isNext("{") {
            try table()
        } else if accept("function") {
            try body()
        } else {
            _ = try suffixed()
        }
        if current.kind != .text, current.kind != .end, Self.binary.contains(current.text) {
            next += 1
            try expression()
        }
    }

    /// - Returns: The use of a name, or of a member of it, that may be assigned; nil for anything else.
    private mutating func suffixed() throws(Wrong) -> Int? {
        var target: Int?
        if accept("(") {
            try expression()
            try expect(")")
        } else {
            target = use(try name())
        }
        var isFirst = true
        while true {
            if accept(".") {
                let member = try name().text
                if isFirst, let target { uses[target].member = member } else { target = nil }
            } else if accept("[") {
                try expression()
                try expect("]")
                target = nil
            } else if accept("(") {
                if !accept(")") {
                    try expressions()
                    try expect(")")
                }
                target = nil
            } else if current.kind == .text {
                next += 1
                target = nil
            } else if isNext("{") {
                try table()
                target = nil
            } else {
                return target
            }
            isFirst = false
        }
    }

    private mutating func table() throws(Wrong) {
        try expect("{")
        while !accept("}") {
            if accept("[") {
                try expression()
                try expect("]")
                try expect("=")
            } else if current.kind == .name, tokens[next + 1].kind == .sign, tokens[next + 1].text == "=" {
                next += 2
            }
            try expression()
            if !accept(",") { _ = accept(";") }
        }
    }
}
