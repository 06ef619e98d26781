/// Content-Disposition to the name of a file: whatever is sent, the name is one harmless component.
enum DispositionFuzz: FuzzTarget {
    static func run(_ bytes: UnsafeRawBufferPointer) {
        guard let sent = ContentDisposition.fileName(bytes.text), let name = FileName.sanitise(sent) else { return }
        precondition((1...255).contains(name.utf8.count))
        precondition(
            name.utf8.first != UInt8(ascii: ".")
                && !name.utf8.contains { $0 < 32 || $0 == UInt8(ascii: "/") || $0 == 127 })
        precondition(FileName.sanitise(name) == name)
        // A long name may end in a number already; then the next one is tried.
        let numbered = [7, 8].map { FileName.numbered(name, $0) }
        precondition(numbered.contains { $0 != name } && numbered.allSatisfy { $0.utf8.count <= 255 })
    }
}
