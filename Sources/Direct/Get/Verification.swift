import HaulActivities
import HaulContract

/// Names what proves that a file is right, for the column `verified`.
enum Verification {
    static func label(
        _ file: CompletedFile, _ job: Job, _ proof: UnrecordedFile.Proof?, _ completeness: Completeness,
        isUnchanged: Bool
    ) -> String {
        switch proof {
        case .checksum(let checksum, let authority): return "\(checksum.algorithm.rawValue) (\(authority))"
        case .notNewer: return "not newer there"
        case .size: return "size and date"
        case nil: break
        }
        if isUnchanged, file.entity.etag != nil { return "same ETag" }
        if isUnchanged, file.entity.lastModifiedIsStrong { return "same date" }
        // Only a digest that was computed counts.
        let computed = file.checksum
        if let checksum = job.checksum, checksum.description == computed {
            return "\(checksum.algorithm.rawValue) (given)"
        }
        if let digest = file.entity.digest, digest.description == computed {
            return "\(digest.algorithm.rawValue) (server's)"
        }
        if job.size != nil { return "size (given)" }
        return switch completeness {
        case .length: "size"
        case .end: "end"
        case .nothing: "nothing"
        }
    }
}
