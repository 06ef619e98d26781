import HaulContract

extension GetItem {
    /// Adds to a failure's message which options of the command may help.
    ///
    /// - Parameter name: The file's name as far as it is known.
    func explained(_ failure: Failure, of name: String) -> Failure {
        var failure = failure
        if failure.code == .fileExists, !failure.isFinal {
            // An object that has the name is noticed only at the end of the upload, so it may be an old one.
            failure.message =
                GetTarget.isBucket(root)
                ? "\(name) exists: choose --if-exists overwrite, rename or skip"
                : "\(name) was made or changed during this download: choose --if-exists overwrite or rename to continue"
        }
        if failure.code == .tls {
            if isSchemeAssumed { failure.message += " (the URL has no scheme, so https was meant)" }
            if failure.message.contains("cannot be trusted") {
                failure.message += "; --ca FILE trusts one more authority"
            }
        }
        if failure.code == .http(401) { failure.message += "; -u USER, --bearer and --netrc set credentials" }
        return failure
    }
}
