/// A location where credentials may be found.
enum CredentialsLocation: Sendable, Equatable {
    /// `AWS_ACCESS_KEY_ID` and `AWS_SECRET_ACCESS_KEY`.
    case environment(Credentials)
    /// A profile in the shared credentials file.
    case file(path: String, profile: String)
    /// STS exchanges the token in a file for credentials, as for a service account of Kubernetes.
    case webIdentity(role: String, tokenFile: String, session: String, endpoint: String)
    /// The credentials service for containers (ECS, EKS Pod Identity).
    case container(url: String, token: Token?)
    /// The role of the machine, by the instance metadata service (IMDSv2).
    case instance(endpoint: String)

    /// The Authorization field for the containers' service.
    enum Token: Sendable, Equatable {
        case text(String)
        /// The path of a file that is read for each request, because the token changes.
        case file(String)
    }

    /// The locations that the environment names, in the order of Amazon's own tools.
    ///
    /// - Parameter isReadable: Whether a readable file is at a path.
    static func all(_ environment: (String) -> String?, isReadable: (String) -> Bool) -> [CredentialsLocation] {
        func value(_ name: String) -> String? { environment(name).flatMap { $0.isEmpty ? nil : $0 } }
        var locations: [CredentialsLocation] = []
        let profile = value("AWS_PROFILE")
        // AWS_PROFILE is a deliberate choice, so it takes precedence over keys that are in the environment as well.
        if profile == nil, let key = value("AWS_ACCESS_KEY_ID"), let secret = value("AWS_SECRET_ACCESS_KEY") {
            locations.append(
                .environment(Credentials(accessKey: key, secret: secret, token: value("AWS_SESSION_TOKEN"))))
        }
        if let role = value("AWS_ROLE_ARN"), let file = value("AWS_WEB_IDENTITY_TOKEN_FILE") {
            let region = value("AWS_REGION") ?? value("AWS_DEFAULT_REGION")
            let endpoint =
                value("AWS_ENDPOINT_URL_STS") ?? region.map { "https://sts.\($0).amazonaws.com" }
                ?? "https://sts.amazonaws.com"
            locations.append(
                .webIdentity(
                    role: role, tokenFile: file, session: value("AWS_ROLE_SESSION_NAME") ?? "haul", endpoint: endpoint))
        }
        if let file = credentialsFile(environment), profile != nil || isReadable(file) {
            locations.append(.file(path: file, profile: profile ?? "default"))
        }
        let token =
            value("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE").map(Token.file)
            ?? value("AWS_CONTAINER_AUTHORIZATION_TOKEN").map(Token.text)
        if let path = value("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI") {
            locations.append(.container(url: "http://169.254.170.2" + path, token: token))
        } else if let url = value("AWS_CONTAINER_CREDENTIALS_FULL_URI") {
            locations.append(.container(url: url, token: token))
        }
        if value("AWS_EC2_METADATA_DISABLED")?.lowercased() != "true" {
            locations.append(
                .instance(endpoint: value("AWS_EC2_METADATA_SERVICE_ENDPOINT") ?? "http://169.254.169.254"))
        }
        return locations
    }

    /// The shared credentials file; nil without a home directory.
    static func credentialsFile(_ environment: (String) -> String?) -> String? {
        named(environment, "AWS_SHARED_CREDENTIALS_FILE", in: "credentials")
    }

    /// The shared configuration file, which may have the region and the endpoint of a profile.
    static func configurationFile(_ environment: (String) -> String?) -> String? {
        named(environment, "AWS_CONFIG_FILE", in: "config")
    }

    private static func named(_ environment: (String) -> String?, _ variable: String, in name: String) -> String? {
        func value(_ name: String) -> String? { environment(name).flatMap { $0.isEmpty ? nil : $0 } }
        return value(variable) ?? value("HOME").map { "\($0)/.aws/\(name)" }
    }

    /// Whether this is a service that the operator has named. The metadata service is asked on any machine, and most have
    /// none.
    var isChosenService: Bool {
        switch self {
        case .webIdentity, .container: true
        case .environment, .file, .instance: false
        }
    }

    /// The name of the location in messages to the operator.
    var label: String {
        switch self {
        case .environment: "the environment"
        case .file(let path, let profile): "\(path), profile \(profile)"
        case .webIdentity(let role, _, _, _): "the web identity of \(role)"
        case .container: "the container's role"
        case .instance: "the machine's role"
        }
    }
}
