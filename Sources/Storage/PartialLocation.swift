/// Identifies a partial file. It is beside `file`, the path of the finished file.
package struct PartialLocation: Sendable {
    package let file: String
    package let key: String
    package let generation: String
    /// The hidden name. nil if it is not known: it changes with each run that takes the file over.
    package let name: String?
    /// The finished file may have replaced another one.
    package var mayHaveReplaced = false

    package init(file: String, key: String, generation: String, name: String? = nil) {
        (self.file, self.key, self.generation, self.name) = (file, key, generation, name)
    }
}
