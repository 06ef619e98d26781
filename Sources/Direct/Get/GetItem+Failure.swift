import HaulContract

extension GetItem {
    /// The failure of this download in the words of somebody who knows what was typed. `name` is what the file is called by now.
    func explained(_ failure: Failure, of name: String) -> Failure {
        var failure = failure
        if failure.code == .fileExists, !failure.isFinal {
            // Of a bucket it is not known before.
            failure.message =
                GetPlace.isBucket(root)
                ? "\(name) is there: choose --if-exists overwrite, rename or skip"
                : "\(name) came while this was under way: choose --if-exists overwrite or rename, and it goes on"
        }
        if failure.code == .tls {
            if isSchemeAssumed { failure.message += " (the URL has no scheme, so https was meant)" }
            if failure.message.contains("certificate") { failure.message += "; --ca FILE trusts one more authority" }
        }
        if failure.code == .http(401) { failure.message += "; -u USER, --bearer or --netrc give them" }
        return failure
    }
}
