package import ArgumentParser
import HaulContract
package import HaulObjectStore
import HaulTerminal

/// The options that say where a bucket is.
package struct BucketOptions: ParsableArguments {
    @Option(
        name: .customLong("s3-endpoint"),
        help: "The object store, unless it is Amazon's: http://HOST:PORT or https://HOST. [AWS_ENDPOINT_URL_S3]")
    package var endpoint: String?
    @Option(name: .customLong("s3-region"), help: "The bucket's region. [AWS_REGION]") package var region: String?
    @Option(
        name: .customLong("s3-style"),
        help: "path or virtual: whether the bucket is in the path or in the host's name; path with an endpoint.",
        completion: .list(["path", "virtual"]))
    package var style: String?

    package init() {}

    /// The address of a store `s3://BUCKET/PREFIX`, by these options and the AWS variables of the environment.
    ///
    /// - Parameter isSource: Objects are only read there. Then the profile that `AWS_PROFILE` names gives the endpoint and
    ///   the region that nothing else gives. They would change the id of a store.
    /// - Throws: `ExitStatus.usage`; the reason has been printed.
    package func address(of store: String, isSource: Bool = false) throws -> BucketAddress {
        let environment = Environment.text
        guard style == nil || style == "path" || style == "virtual" else {
            throw ExitStatus.printing(.usage, "--s3-style must be path or virtual, not \"\(style ?? "")\"")
        }
        let profile = isSource ? environment("AWS_PROFILE").map { BucketProfile($0, environment) } : nil
        let endpoint = endpoint ?? environment("AWS_ENDPOINT_URL_S3") ?? environment("AWS_ENDPOINT_URL")
        let region = region ?? environment("AWS_REGION") ?? environment("AWS_DEFAULT_REGION")
        do throws(Failure) {
            if endpoint == nil { try profile?.checkEndpoint() }
            return try BucketAddress(
                store, endpoint: endpoint ?? profile?.endpoint, region: region ?? profile?.region,
                isPathStyle: style.map { $0 == "path" })
        } catch { throw ExitStatus.printing(.usage, error.message) }
    }
}
