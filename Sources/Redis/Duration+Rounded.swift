extension Duration {
    /// To a tenth of a second, for people.
    var rounded: Duration {
        let (seconds, attoseconds) = components
        return .milliseconds(100 * (Double(seconds) * 10 + Double(attoseconds) / 1e17).rounded())
    }
}
