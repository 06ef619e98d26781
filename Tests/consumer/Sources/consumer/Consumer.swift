import HaulClient

/// Prints the id that a job would get. No Redis is needed.
@main struct Consumer {
    static func main() throws {
        let job = Job("https://example.org/a.iso")
        print(try job.resolvedID)
    }
}
