/// What may stand in a command.
package protocol RedisArgument: Sendable {
    /// Appends the argument as a length-prefixed string.
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
        bytes.append(UInt8(ascii: "$"))
        bytes.append(contentsOf: String(count).utf8)
        bytes.append(contentsOf: [13, 10])
        bytes.append(contentsOf: self)
        bytes.append(contentsOf: [13, 10])
    }
}

/// A command and its arguments.
package struct Command: Sendable {
    package let arguments: [any RedisArgument]

    package init(_ arguments: any RedisArgument...) { self.arguments = arguments }
    package init(arguments: [any RedisArgument]) { self.arguments = arguments }

    /// Appends the command in Redis' wire format: an array of length-prefixed strings.
    func encode(into bytes: inout [UInt8]) {
        bytes.append(UInt8(ascii: "*"))
        bytes.append(contentsOf: String(arguments.count).utf8)
        bytes.append(contentsOf: [13, 10])
        for argument in arguments { argument.encode(into: &bytes) }
    }
}

/// A Lua script and the name by which Redis knows it.
package struct Script: Sendable {
    /// For messages.
    package let name: String
    package let source: String
    package let sha1: String

    package init(name: String, source: String) {
        (self.name, self.source) = (name, source)
        sha1 = SHA1.hex(source)
    }
}

/// One element of a pipeline.
package enum Call: Sendable {
    case command(Command)
    case script(Script, keys: [String], arguments: [any RedisArgument])

    var command: Command {
        switch self {
        case .command(let command): command
        case .script(let script, let keys, let arguments):
            Command(arguments: ["EVALSHA", script.sha1, keys.count] + keys + arguments)
        }
    }

    /// The same with the script's text, for a server that does not know it yet.
    var withSource: Command {
        switch self {
        case .command(let command): command
        case .script(let script, let keys, let arguments):
            Command(arguments: ["EVAL", script.source, keys.count] + keys + arguments)
        }
    }
}
