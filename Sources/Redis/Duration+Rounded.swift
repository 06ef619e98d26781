extension Duration {
    /// Rounded to a tenth of a second, for messages.
    var rounded: Duration {
        let (seconds, attoseconds) = components
        return .milliseconds(100 * (Double(seconds) * 10 + Double(attoseconds) / 1e17).rounded())
    }
}
