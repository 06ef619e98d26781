import CHaulPage

/// The files of Page/ that CPage embeds, with the names under which they are served.
enum PageFiles {
    static var all: [(name: String, bytes: [UInt8])] {
        var files: [(name: String, bytes: [UInt8])] = []
        var next = chaul_page_files()
        while let file = next?.pointee, let name = file.name, let text = file.text {
            files.append((String(cString: name), Array(String(cString: text).utf8)))
            next = next?.successor()
        }
        return files
    }
}
