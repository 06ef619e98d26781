/// A partial file that was found, and what tells whether a job still wants it.
package struct Leftover: Sendable {
    package let path: String
    /// Empty: no partial file after all, but what a worker makes for a moment, to see if it can.
    package let key: String
    package let generation: String
    /// The token of the run that took it over; nil if none did.
    package let holder: String?
    /// It has, or proves, a final name, unless that is gone.
    package let isPlaced: Bool
    /// Changes with every change of the file.
    package let version: Version
    /// Seconds since it changed.
    package let age: Int64

    /// Two numbers that a store tells changes by.
    package struct Version: Sendable, Equatable {
        let first: Int64
        let second: Int64

        package init(_ first: Int64, _ second: Int64) { (self.first, self.second) = (first, second) }
    }

    package init(
        path: String, key: String, generation: String, holder: String? = nil, isPlaced: Bool, version: Version,
        age: Int64
    ) {
        (self.path, self.key, self.generation, self.holder) = (path, key, generation, holder)
        (self.isPlaced, self.version, self.age) = (isPlaced, version, age)
    }

    /// The tokens of the run that made it, and of the one that took it over.
    package var runs: Set<String> { Set([String(generation.prefix { $0 != "." })] + (holder.map { [$0] } ?? [])) }
}
