/// An element of the list of jobs: an accepted element keeps every promise of its fields.
enum JobFuzz: FuzzTarget {
    static func run(_ bytes: UnsafeRawBufferPointer) {
        let job: Job
        do { job = try Job(element: bytes) } catch {
            precondition(!error.reason.isEmpty)
            return
        }
        precondition((1...17).contains(job.urls.count))
        for url in job.urls {
            precondition(url.hasPrefix("http") || url.lowercased().hasPrefix("http"))
            precondition(!url.utf8.contains { $0 <= 32 || $0 == 127 })
            precondition(!MaskedURL.text(url).isEmpty)
        }
        if let path = job.path {
            precondition(path.utf8.first != UInt8(ascii: "/"))
            for part in path.utf8.split(separator: UInt8(ascii: "/")) {
                precondition(!part.elementsEqual("..".utf8) && !part.starts(with: ".haul".utf8))
            }
        }
        for header in job.headers {
            precondition(!header.name.utf8.contains { $0 <= 32 || $0 == UInt8(ascii: ":") })
            precondition(!header.value.utf8.contains { $0 == 0 || $0 == 10 || $0 == 13 })
            precondition(!JobField.forbiddenHeaders.contains(header.name.lowercased()))
        }
        if let id = job.id { precondition(JobField.isID(id)) }
        if let checksum = job.checksum { precondition(Job.Checksum(checksum.description) == checksum) }
        if let meta = job.meta { precondition((try? JSON(meta)) != nil) }
        precondition(job.body == nil || job.id != nil)
        precondition((try? Job(element: bytes)) == job)
    }
}
