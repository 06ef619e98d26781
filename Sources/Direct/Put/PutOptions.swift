import ArgumentParser
import HaulContract
import HaulFileStore
import HaulTerminal

/// The options that say what is sent, and how.
struct PutOptions: ParsableArguments {
    @OptionGroup(title: "Servers") var request: RequestOptions
    @Option(
        name: [.customShort("X", allowingJoined: true), .customLong("request")],
        help: "PUT, POST or PATCH. [PUT; POST with --form] A POST or PATCH is sent once.")
    var method: String?
    @Flag(help: "Use tus 1.0: after a failure the upload continues at the server's offset.") var tus = false
    @Flag(help: "All files in one form, multipart/form-data.") var form = false
    @Option(help: "A field NAME=VALUE of that form. May be repeated.") var field: [String] = []
    @Option(help: "sha-256 or sha-512: send the digest of each body (Content-Digest).")
    var contentDigest: String?
    @Option(
        name: [.customShort("j", allowingJoined: true), .customLong("parallel")], help: "Uploads at once, 1 to 100.")
    var parallel = 4
    @Option(
        help:
            "Bytes per second over all uploads, like 500k or 5M, or by the time of day: 'full 22:00-06:00, 2M'. Local time, unless a zone follows: '22:00-06:00 Europe/Berlin'.",
        transform: RateSchedule.option)
    var limitRate: RateSchedule?
    @Option(help: "Attempts after the first. [5; none where no server has answered yet]") var retries: Int?
    @Option(help: "Seconds for DNS, connection and TLS together. [10]") var connectTimeout: Double?
    @Option(help: "Seconds without a byte after which a connection is closed. [30]") var timeout: Double?

    @Option(
        name: [.customShort("m", allowingJoined: true), .long], help: "Seconds within which each upload must be done.")
    var maxTime: Double?

    var isForm: Bool { form || !field.isEmpty }

    func validate() throws {
        guard (1...100).contains(parallel) else {
            throw ValidationError("--parallel must be from 1 to 100, not \(parallel)")
        }
        try transfer.validate()
    }

    /// The settings that uploads share with downloads.
    var transfer: TransferOptions {
        var transfer = TransferOptions()
        (transfer.parallel, transfer.connections, transfer.limitRate) = (parallel, 1, limitRate)
        (transfer.retries, transfer.connectTimeout, transfer.timeout) = (retries, connectTimeout, timeout)
        (transfer.durability, transfer.remoteTime) = (.process, false)
        (transfer.maxTime, transfer.minSpeed) = (maxTime, nil)
        return transfer
    }
}
