import ArgumentParser
import HaulContract
import HaulDirect
import HaulObjectStore
import HaulTerminal

struct StoreCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "store", abstract: "Check what an object store supports.", subcommands: [CheckStore.self])

    struct CheckStore: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "check", abstract: "Try what Haul requires of a bucket, and print what the responses mean.",
            discussion: """
                It needs the credentials that a worker needs, writes some objects beneath PREFIX/.haul/check-…, and removes them. \
                Exit status 1 if a worker cannot work there.
                """)
        @Argument(help: "s3://BUCKET or s3://BUCKET/PREFIX.") var store: String
        @OptionGroup var bucket: BucketOptions
        @Option(
            name: .customLong("ca"), help: "A file of certificate authorities to trust besides the system's.",
            completion: .file())
        var certificates: String?
        @Flag(help: "One JSON object per line.") var json = false

        func run() async throws {
            var options = ObjectStore.Options()
            options.certificateAuthorities = certificates
            let store = ObjectStore(try bucket.address(of: store), options: options)
            let findings = await StoreCheck(store).run()
            if json {
                for finding in findings {
                    Terminal.line(
                        JSON.object([
                            ("what", JSON.quoted(finding.what)), ("verdict", JSON.quoted(finding.verdict.rawValue)),
                            ("found", JSON.quoted(finding.found)), ("consequence", JSON.quoted(finding.consequence)),
                        ]))
                }
            } else {
                var table = Table([
                    .init(title: "what"), .init(title: "verdict"), .init(title: "found", minWidth: 20),
                    .init(title: "what follows", minWidth: 20),
                ])
                for finding in findings {
                    table.add([finding.what, finding.verdict.rawValue, finding.found, finding.consequence])
                }
                for line in table.lines(width: nil) { Terminal.line(line) }
            }
            if findings.contains(where: { $0.verdict == .bad }) { throw ExitStatus.jobFailed }
        }
    }
}
