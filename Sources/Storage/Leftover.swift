/// A partial file that was found, and what tells whether a job still wants it.
package struct Leftover: Sendable {
    package let path: String
    /// Empty: no partial file after all, but what a worker makes for a moment, to see if it can.
    package let key: String
    package let generation: String
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

    package init(path: String, key: String, generation: String, isPlaced: Bool, version: Version, age: Int64) {
        (self.path, self.key, self.generation) = (path, key, generation)
        (self.isPlaced, self.version, self.age) = (isPlaced, version, age)
    }

    /// The token of the run that made it.
    package var run: String { String(generation.prefix { $0 != "." }) }
}
