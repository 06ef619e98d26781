/// Which partial file: it is beside `file`, the finished one's path.
package struct PartialPlace: Sendable {
    package let file: String
    package let key: String
    package let generation: String
    /// Its hidden name; nil if that is not known, since it changes with each run that takes the file over.
    package let name: String?

    package init(file: String, key: String, generation: String, name: String? = nil) {
        (self.file, self.key, self.generation, self.name) = (file, key, generation, name)
    }
}
