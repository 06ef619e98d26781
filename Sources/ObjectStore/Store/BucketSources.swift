import Glibc
package import HaulContract
package import HaulHTTP
import HaulStorage
import Synchronization

/// A bucket, or a prefix of one, whose objects jobs may download.
package struct BucketSource: Sendable, Equatable {
    package let address: BucketAddress
    /// The profile of Amazon's credentials file that has the credentials; nil for the credentials of this process.
    package let profile: String?

    package init(_ address: BucketAddress, profile: String?) { (self.address, self.profile) = (address, profile) }
}

/// The endpoint and the region that a profile of Amazon's tools has, and whether it has credentials.
package struct BucketProfile: Sendable, Equatable {
    package let name: String
    package let endpoint: String?
    package let region: String?
    package let hasCredentials: Bool

    /// - Parameter environment: The value of an environment variable. It may say where the files are.
    package init(_ name: String, _ environment: (String) -> String?) {
        let files = [
            CredentialsLocation.credentialsFile(environment), CredentialsLocation.configurationFile(environment),
        ]
        let sections = files.map { file in
            file.flatMap(CredentialsFile.text).map { CredentialsFile.section(name, of: $0) } ?? [:]
        }
        func value(_ key: String) -> String? { sections[1][key] ?? sections[0][key] }
        (self.name, endpoint, region) = (name, value("endpoint_url"), value("region"))
        hasCredentials = sections[0]["aws_access_key_id"] != nil && sections[0]["aws_secret_access_key"] != nil
    }

    /// - Throws: `bad_job`, with a sentence that names the profile, if its endpoint is not valid.
    package func checkEndpoint() throws(Failure) {
        guard let endpoint else { return }
        do throws(Failure) { _ = try BucketAddress("s3://any", endpoint: endpoint) } catch {
            throw Failure(.badJob, "endpoint_url of the profile \"\(name)\" is wrong: \(error.message)")
        }
    }
}

/// The buckets whose objects jobs may download. Each request is signed by the client of its bucket.
package final class BucketSources: SourceBuckets {
    private struct State {
        var clients: [BucketClient] = []
        /// nil until a bucket is needed: a command that reads none needs no engine.
        var engine: TransferEngine?
        /// The credentials by profile; "" for those of this process.
        var chains: [String: CredentialsChain] = [:]
    }

    private let state = Mutex(State())
    /// Returns the address of a bucket that is not among the sources; nil if only these may be read.
    private let other: (@Sendable (String) -> BucketAddress?)?
    private let options: ObjectStore.Options
    private let environment: @Sendable (String) -> String?

    /// - Parameters:
    ///   - other: The address of any other bucket. Without it a request for another bucket fails.
    ///   - environment: The value of an environment variable. It may say where credentials are.
    package init(
        _ sources: [BucketSource], options: ObjectStore.Options,
        other: (@Sendable (String) -> BucketAddress?)? = nil,
        environment: @escaping @Sendable (String) -> String? = { name in getenv(name).map { String(cString: $0) } }
    ) {
        (self.other, self.options, self.environment) = (other, options, environment)
        for source in sources { _ = add(source) }
    }

    /// Returns the client of a source, which is made if there is none yet.
    private func add(_ source: BucketSource) -> BucketClient {
        state.withLock { state in
            if let known = state.clients.first(where: { $0.address == source.address }) { return known }
            if state.engine == nil {
                // The operator chose the endpoints, so every address is allowed, as for a store.
                var configuration = TransferEngine.Configuration()
                configuration.policy = .unrestricted
                configuration.certificateAuthorities = options.certificateAuthorities
                state.engine = TransferEngine(configuration: configuration)
            }
            let name = source.profile ?? ""
            let chain = state.chains[name] ?? Self.chain(of: source.profile, state.engine!, environment)
            state.chains[name] = chain
            // The region of a profile comes before that of the option.
            let regionSetting = source.profile.map { "region of the profile \($0)" } ?? "--s3-region"
            let client = BucketClient(
                source.address, engine: state.engine!, credentials: chain, regionSetting: regionSetting,
                notify: options.notify)
            state.clients.append(client)
            return client
        }
    }

    private static func chain(
        of profile: String?, _ engine: TransferEngine, _ environment: (String) -> String?
    ) -> CredentialsChain {
        guard let profile else {
            // The file may be written later, and messages name it.
            return CredentialsChain(
                engine: engine, locations: CredentialsLocation.all(environment, isReadable: { _ in true }))
        }
        let file = CredentialsLocation.credentialsFile(environment) ?? ""
        return CredentialsChain(engine: engine, locations: [.file(path: file, profile: profile)])
    }

    package func start(_ request: HTTPRequest, for url: WebURL) async throws(TransferError) -> Transfer {
        let client: BucketClient
        do throws(Failure) { client = try self.client(for: url) } catch { throw .failed(error) }
        var request = request
        // S3 has no If-Range. If-Match is stricter: another version is refused instead of being sent from its start.
        var etag: String?
        if let index = request.headers.firstIndex(where: { $0.name == "If-Range" }) {
            let validator = request.headers.remove(at: index).value
            if validator.hasPrefix("\"") { etag = StoreResponse.unquoted(validator) }
        }
        let isOption = other == nil
        return try await client.open(url.key, version: url.version, like: request, ifMatch: etag) {
            error, headers, location in
            Self.failure(error, headers, client, location, isOption: isOption)
        }
    }

    package func check() async {
        for client in state.withLock({ $0.clients }) {
            do throws(StoreError) { _ = try await client.credentials.credentials() } catch {
                guard !Task.isCancelled else { return }
                options.notify("jobs cannot read \(client.address): \(error.message)")
            }
        }
    }

    private func client(for url: WebURL) throws(Failure) -> BucketClient {
        let (bucket, key) = (url.bucket, url.key)
        guard !key.pathParts.contains(where: { $0 == "." || $0 == ".." }) else {
            // Some servers would read another key, perhaps one beneath another prefix.
            throw Failure(.badJob, "the key of an object may not have the part . or .., as in \(key)", isFinal: true)
        }
        let own = state.withLock { $0.clients }.filter { $0.address.bucket == bucket }
        // Compared by bytes, because Swift treats canonically equivalent strings as equal, and a server does not.
        let found = own.filter { key.utf8.starts(with: $0.address.key("").utf8) }
        // The longest prefix is the most specific source.
        if let client = found.max(by: { $0.address.prefix.utf8.count < $1.address.prefix.utf8.count }) { return client }
        guard let other = other?(BucketAddress.scheme + bucket) else {
            let location = own.isEmpty ? bucket : "\(bucket)/\(key)"
            throw Failure(
                .addressForbidden,
                "this worker may not read s3://\(location): the operator allows it with --source s3://\(bucket)=PROFILE",
                isFinal: true)
        }
        return add(BucketSource(other, profile: nil))
    }

    /// A failure for the job. The server's own message is left out, because it may name the user and the key.
    ///
    /// - Parameters:
    ///   - location: Where the credentials were found.
    ///   - isOption: The bucket is one of the worker's option --source.
    private static func failure(
        _ error: StoreError, _ headers: HeaderFields, _ client: BucketClient, _ location: String?, isOption: Bool
    ) -> Failure {
        let bucket = client.address.bucket
        if error.status == 0 || error.kind == .expired {
            return credentialsFailure(error, bucket, location, isOption: isOption)
        }
        if error.kind == .clock {
            // The clock jumped again after each correction, or the server sent no Date. That is not the job's fault, so
            // it is tried again.
            var failure = Failure(
                .io,
                "the bucket \(bucket) says that this machine's clock is wrong: set the clock (HTTP \(error.status), \(error.code))"
            )
            failure.blamesMirror = true
            return failure
        }
        let advice =
            switch error.kind {
            case _ where error.code == "InvalidObjectState":
                "the object is archived: it has to be restored before it can be read"
            case _ where error.status == 405:
                "this version of the object is a delete marker: give another version, or none"
            case .noSuchBucket:
                "there is no bucket \(bucket): check \(isOption ? "--source" : "its name") and the endpoint"
            case .noSuchObject:
                "the bucket \(bucket) has no such object: check the key, and the version if the URL has one"
            case .denied:
                "the bucket \(bucket) refuses access: check the credentials"
                    + "\(isOption ? " of --source s3://\(bucket)" : "") and what they allow"
            // The kind is permanent if the server does not name the region.
            case .region,
                .permanent where error.status == 301 || error.code == "AuthorizationHeaderMalformed":
                "the bucket \(bucket) is in another region: set \(client.regionSetting)"
            case .throttled: "the bucket \(bucket) limits the number of requests"
            default: "the bucket \(bucket) does not send the object"
            }
        let now = headers["date"].flatMap(HTTPDate.parse) ?? UnixTime.seconds
        // Without an error document, as after HEAD, the code is made of the status.
        let code = error.code.hasPrefix("HTTP") ? "" : ", \(error.code)"
        return Failure(
            .http(error.status), "\(advice) (HTTP \(error.status)\(code))",
            retryAfter: headers["retry-after"].flatMap { Int64($0) ?? HTTPDate.parse($0).map { $0 - now } }
                .map { .seconds(max(0, min($0, 86_400))) })
    }

    /// The failure if there are no credentials now, or if they have expired. Others may come at any time, so that a
    /// worker tries again.
    private static func credentialsFailure(
        _ error: StoreError, _ bucket: String, _ location: String?, isOption: Bool
    ) -> Failure {
        let from = location.map { "; they are from \($0)" } ?? ""
        let message =
            error.status == 0
            ? "the bucket \(bucket) cannot be read: \(error.message)"
            : "the credentials for the bucket \(bucket) have expired\(from) (HTTP \(error.status), \(error.code))"
        // A command whose user has no credentials would wait in vain.
        var failure = Failure(.io, message, isFinal: !isOption && error.kind == .denied)
        failure.blamesMirror = true
        return failure
    }
}
