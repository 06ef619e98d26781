/// URLs, Location and cookies: a reference never leads to another scheme, and cookies go to no other origin.
enum URLFuzz: FuzzTarget {
    static func run(_ bytes: UnsafeRawBufferPointer) {
        let (first, second) = bytes.twoTexts
        guard let url = WebURL(first) else { return }
        precondition(WebURL(url.unmasked) == url)
        precondition(url.hasSameOrigin(as: url))
        precondition(!url.host.isEmpty && url.host == url.host.lowercased())
        if let name = FileName.sanitize(url.lastComponent) { precondition(!name.utf8.contains(UInt8(ascii: "/"))) }
        precondition(url.unmasked.utf8.allSatisfy { $0 > 32 && $0 < 127 })
        var jar = CookieJar()
        jar.set(second, from: url)
        let stranger = WebURL("https://stranger.invalid:1/")!
        precondition(jar.header(for: stranger) == nil || url.hasSameOrigin(as: stranger))
        guard let target = url.resolve(second) else { return }
        precondition(target.scheme == "http" || target.scheme == "https")
        precondition(WebURL(target.unmasked) == target)
        // Compare bytes: a "/" and a combining mark after it are one character.
        precondition(target.hasSameOrigin(as: url) || PercentEncoding.encode(second).contains("//"))
    }
}
