package import HaulContract

extension Job {
    /// The first URL that no worker could request, masked; nil if there is none. The gate and the client refuse all
    /// other faults of a URL, but only libraries know which international names are valid.
    package var unreadableURL: String? {
        urls.first { WebURL($0) == nil }.map(MaskedURL.text)
    }
}
