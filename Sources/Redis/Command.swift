/// A value that may be an argument of a command.
package protocol RedisArgument: Sendable {
    /// Appends the argument as a length-prefixed string (a bulk string of RESP).
    func encode(into bytes: inout [UInt8])
}

extension String: RedisArgument {
    package func encode(into bytes: inout [UInt8]) { utf8.encodeBulk(into: &bytes) }
}

extension [UInt8]: RedisArgument {
    package func encode(into bytes: inout [UInt8]) { encodeBulk(into: &bytes) }
}

extension Int: RedisArgument {
    package func encode(into bytes: inout [UInt8]) { String(self).encode(into: &bytes) }
}

extension Int64: RedisArgument {
    package func encode(into bytes: inout [UInt8]) { String(self).encode(into: &bytes) }
}

extension Collection where Element == UInt8 {
    fileprivate func encodeBulk(into bytes: inout [UInt8]) {
        bytes.appendHead("$", count)
        bytes.append(contentsOf: self)
        bytes.append(13)
        bytes.append(10)
    }
}

extension [UInt8] {
    fileprivate mutating func appendHead(_ kind: Unicode.Scalar, _ number: Int) {
        append(UInt8(ascii: kind))
        // The fast path: most numbers have one digit.
        if number < 10 { append(UInt8(ascii: "0") + UInt8(number)) } else { append(contentsOf: String(number).utf8) }
        append(13)
        append(10)
    }
}

/// A command and its arguments.
package struct Command: Sendable {
    package let arguments: [any RedisArgument]
    /// The command in Redis' wire format, if it has been encoded already.
    private var wire: [UInt8]?

    package init(_ arguments: any RedisArgument...) { self.arguments = arguments }
    package init(arguments: [any RedisArgument]) { self.arguments = arguments }

    /// Appends the command in Redis' wire format: an array of length-prefixed strings.
    func encode(into bytes: inout [UInt8]) {
        if let wire { return bytes.append(contentsOf: wire) }
        bytes.appendHead("*", arguments.count)
        for argument in arguments { argument.encode(into: &bytes) }
    }
}

extension Command {
    /// The same command, encoded by the calling thread and not by the thread that all connections share.
    package var encoded: Command {
        var command = self
        var bytes: [UInt8] = []
        encode(into: &bytes)
        command.wire = bytes
        return command
    }
}

/// A library of Lua functions (FUNCTION LOAD). Redis persists and replicates a library together with its data.
///
/// The library's name contains a digest of its source. So a new version of this program does not replace the library of
/// an old version, and both versions work side by side during a rolling update.
package struct Library: Sendable {
    package let name: String
    let source: String

    /// - Parameter body: Lua that registers functions. Their names must begin with the value of the local `LIBRARY` and
    ///   "_".
    package init(name: String, body: String) {
        self.name = "\(name)_\(SHA1.hex(body).prefix(12))"
        source = "#!lua name=\(self.name)\nlocal LIBRARY = '\(self.name)'\n\(body)"
    }

    package func function(_ name: String) -> Function { Function(library: self, name: "\(self.name)_\(name)") }

    /// Loads the library. Idempotent: another client may have loaded it already.
    var load: Command { Command("FUNCTION", "LOAD", "REPLACE", source) }
}

/// A function of a library.
package struct Function: Sendable {
    let library: Library
    let name: String
}

/// One element of a pipeline.
package enum Call: Sendable {
    case command(Command)
    case function(Function, keys: [String], arguments: [any RedisArgument])

    var command: Command {
        switch self {
        case .command(let command): command
        case .function(let function, let keys, let arguments):
            Command(arguments: ["FCALL", function.name, keys.count] + keys + arguments)
        }
    }
}
