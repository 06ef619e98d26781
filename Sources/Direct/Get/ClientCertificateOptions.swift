package import ArgumentParser
package import HaulHTTP

/// What `get` and `worker` show to servers that ask who connects.
package struct ClientCertificateOptions: ParsableArguments {
    @Option(
        name: .customLong("client-cert"),
        help: "A certificate in PEM for servers that ask for a client's; its key too.",
        completion: .file()
    )
    package var file: String?
    @Option(
        name: .customLong("client-key"), help: "The key of --client-cert in PEM, if it is in a file of its own.",
        completion: .file())
    package var key: String?
    @Option(name: .customLong("client-cert-host"), help: "Show --client-cert to this host only. May be repeated.")
    package var hosts: [String] = []

    package init() {}

    package func validate() throws {
        guard file != nil || key == nil && hosts.isEmpty else {
            throw ValidationError("--client-key and --client-cert-host are about --client-cert, which is missing.")
        }
    }

    package var certificate: ClientCertificate? { file.map { ClientCertificate(file: $0, key: key, hosts: hosts) } }
}
