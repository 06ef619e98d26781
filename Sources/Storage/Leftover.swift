/// A partial file that was found in a store, and what shows whether a job still needs it.
package struct Leftover: Sendable {
    package let path: String
    /// The key of the job (`FileRequest.key`). Empty if this is not a partial file, but a short-lived file of a worker,
    /// such as a test of the disk.
    package let key: String
    package let generation: String
    /// The token of the run that took the file over; nil if none did.
    package let holder: String?
    /// The file has been given its final name, or proves that. The name may be gone since.
    package let hasFinalName: Bool
    /// Changes with every change of the file.
    package let version: Version
    /// Seconds since the last change.
    package let age: Int64

    /// Two numbers by which a store detects changes.
    package struct Version: Sendable, Equatable {
        let first: Int64
        let second: Int64

        package init(_ first: Int64, _ second: Int64) { (self.first, self.second) = (first, second) }
    }

    package init(
        path: String, key: String, generation: String, holder: String? = nil, hasFinalName: Bool, version: Version,
        age: Int64
    ) {
        (self.path, self.key, self.generation, self.holder) = (path, key, generation, holder)
        (self.hasFinalName, self.version, self.age) = (hasFinalName, version, age)
    }

    /// The tokens of the run that created the file and of the run that took it over.
    package var runs: Set<String> { Set([String(generation.prefix { $0 != "." })] + (holder.map { [$0] } ?? [])) }
}
