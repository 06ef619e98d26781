/// One combination of a change of the remote file, its server's behaviour, and an interruption.
package struct MatrixCase: Sendable, CustomStringConvertible {
    /// How the remote file changes at the interruption.
    package enum Change: CaseIterable { case unchanged, everywhere, beforeJoin, afterJoin, shorter, longer }
    /// The validators of the file's versions. A weak ETag, and a date as recent as the response, stay the same when the
    /// file changes. `repeatedETag`: the strong ETag stays the same as well, and the date beside it changes.
    package enum Validator: CaseIterable {
        case strong, weak, oldDate, freshDate, none, repeatedETag, serverDigest, jobChecksum
    }
    /// How the server responds to range requests after the interruption.
    package enum Answer: CaseIterable { case right, partOfNew, shifted, whole, notSatisfiable, ignoredAfterFirst }
    package enum Interruption: CaseIterable { case pause, kill, cut }

    package let change: Change
    package let validator: Validator
    package let answer: Answer
    package let interruption: Interruption
    package let connections: Int

    package static let all: [MatrixCase] = Change.allCases.flatMap { change in
        Validator.allCases.flatMap { validator in
            Answer.allCases.flatMap { answer in
                Interruption.allCases.flatMap { interruption in
                    [1, 8].map {
                        MatrixCase(
                            change: change, validator: validator, answer: answer, interruption: interruption,
                            connections: $0)
                    }
                }
            }
        }
    }

    package var description: String { "\(change) \(validator) \(answer) \(interruption) x\(connections)" }

    /// Whether nothing prevents a continuation, so that a restart would be a waste.
    package var mustContinue: Bool {
        change == .unchanged && answer == .right && ![.weak, .freshDate, .none].contains(validator)
    }

    // MARK: The two versions

    private static let size: Int64 = 2_400_000
    /// How many bytes change where only the start or only the end changes. The first bytes are never fetched last, and
    /// the last bytes never first.
    private static let edge: Int64 = 8_000

    package static let old = MatrixEntity(FileBytes(seed: 1, count: size).all)

    private static let changed: [Change: MatrixEntity] = {
        let other = FileBytes(seed: 2, count: size + 400_000)
        return [
            .unchanged: old,
            .everywhere: MatrixEntity(other.bytes(0..<size)),
            .beforeJoin: MatrixEntity(other.bytes(0..<edge) + old.bytes[Int(edge)...]),
            .afterJoin: MatrixEntity(old.bytes[..<Int(size - edge)] + other.bytes(size - edge..<size)),
            .shorter: MatrixEntity(old.bytes[..<Int(size - 400_000)] + []),
            .longer: MatrixEntity(old.bytes + other.bytes(size..<other.count)),
        ]
    }()

    package var new: MatrixEntity { Self.changed[change]! }
}

/// One version of the remote file.
package struct MatrixEntity: Sendable {
    package let bytes: [UInt8]
    let sha256: [UInt8]

    init(_ bytes: [UInt8]) { (self.bytes, sha256) = (bytes, SHA256.digest(bytes)) }

    package var count: Int64 { Int64(bytes.count) }
    package var checksum: String { SHA256.hexadecimal(sha256) }
}
