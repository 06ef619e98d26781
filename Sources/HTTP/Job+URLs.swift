package import HaulContract

extension Job {
    /// The first URL, masked, that nobody could ask for: only libraries know which international names there can be. The gate and
    /// the client refuse all else.
    package var unreadableURL: String? {
        urls.first { WebURL($0) == nil }.map(MaskedURL.text)
    }
}
