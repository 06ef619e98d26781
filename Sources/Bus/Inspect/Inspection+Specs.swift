import HaulContract
import HaulRedis

// Checks whether the pushed elements can be read. Redis only returns the texts, because a check in Redis would take too
// long.

extension Inspection {
    /// How many elements one call reads, at most 16 KiB each.
    private static let pageOfSpecs = 200

    func checkSpecs(of ids: Set<String>) async throws(RedisError) -> [Finding] {
        var findings: [Finding] = []
        for page in ids.sorted().chunks(ofCount: Self.pageOfSpecs) {
            let specs = try await queue.redis.pipeline(
                page.map { .command(Command("HGET", queue.keys.spec($0), "spec")) })
            for (id, spec) in zip(page, specs) {
                guard let element = spec.bytes, let reason = Self.wrong(with: element) else { continue }
                findings.append(
                    Finding(id, "no worker can read what was pushed: \(reason)", "push the job again with its url"))
            }
        }
        return findings
    }

    private static func wrong(with element: [UInt8]) -> String? {
        do throws(Job.Invalid) {
            _ = try Job(element: element)
            return nil
        } catch {
            return error.description
        }
    }
}
