package import ArgumentParser
package import HaulHTTP

/// The TLS client certificate that `get`, `put` and `worker` present to servers that request one.
package struct ClientCertificateOptions: ParsableArguments {
    @Option(
        name: .customLong("client-cert"),
        help: "A client certificate in PEM, for servers that ask for one. The file may also have its key.",
        completion: .file()
    )
    package var file: String?
    @Option(
        name: .customLong("client-key"), help: "The key of --client-cert in PEM, if it is in a file of its own.",
        completion: .file())
    package var key: String?
    @Option(name: .customLong("client-cert-host"), help: "Send --client-cert to this host only. May be repeated.")
    package var hosts: [String] = []

    package init() {}

    package func validate() throws {
        guard file != nil || key == nil && hosts.isEmpty else {
            throw ValidationError("--client-key and --client-cert-host need --client-cert.")
        }
    }

    package var certificate: ClientCertificate? { file.map { ClientCertificate(file: $0, key: key, hosts: hosts) } }
}
