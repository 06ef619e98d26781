/// When and how the user and the password of a URL are sent.
package enum Authentication: Sendable {
    /// As Basic with the first request, or as Digest if the server requires that.
    case atOnce
    /// Once the server has asked: as Digest, or as Basic if it offers nothing better.
    case whenAsked
    /// Once the server has asked, and only as Digest, so that no proxy or network on the way can read the password.
    case digestOnly
}
