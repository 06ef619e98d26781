/// The file name of Content-Disposition: for any input the name is one harmless component.
enum DispositionFuzz: FuzzTarget {
    static func run(_ bytes: UnsafeRawBufferPointer) {
        guard let sent = ContentDisposition.fileName(bytes.text), let name = FileName.sanitize(sent) else { return }
        precondition((1...255).contains(name.utf8.count))
        precondition(
            name.utf8.first != UInt8(ascii: ".")
                && !name.utf8.contains { $0 < 32 || $0 == UInt8(ascii: "/") || $0 == 127 })
        precondition(FileName.sanitize(name) == name)
        // A long name may already end in one of these numbers. Then the other one differs.
        let numbered = [7, 8].map { FileName.numbered(name, $0) }
        precondition(numbered.contains { $0 != name } && numbered.allSatisfy { $0.utf8.count <= 255 })
    }
}
