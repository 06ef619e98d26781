import ArgumentParser
import Glibc
import HaulTerminal

/// For the health check of a container whose image has no other HTTP client.
struct Health: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "health", abstract: "Ask a worker whether it is healthy.",
        discussion:
            "Exit status: 0 if it is healthy, 1 if it is not or does not respond. docs/operate/metrics.md says what is checked."
    )

    @Argument(help: "The worker's --http address: HOST:PORT, [IPv6]:PORT, :PORT or unix:PATH. [HAUL_HTTP]")
    var address: String?
    @Flag(help: "Ask whether it claims jobs (/readyz) instead of whether it works (/healthz).") var ready = false
    @Option(help: "Seconds to wait for the response.") var timeout = 3

    func run() throws {
        guard let text = address ?? Environment.text("HAUL_HTTP") else {
            throw ExitStatus.printing(
                .usage, "the address is missing: give the one of the worker's --http, or set HAUL_HTTP")
        }
        guard let endpoint = HealthEndpoint(text) else {
            throw ExitStatus.printing(
                .usage, "\"\(text)\" is not an address: use HOST:PORT, [IPv6]:PORT, :PORT or unix:PATH")
        }
        guard (1...600).contains(timeout) else {
            throw ExitStatus.printing(.usage, "--timeout must be from 1 to 600 seconds, not \(timeout)")
        }
        let path = ready ? "/readyz" : "/healthz"
        let response: HealthResponse
        do throws(HealthEndpoint.Unreachable) { response = try endpoint.get(path, seconds: timeout) } catch {
            throw ExitStatus.printing(.jobFailed, "no response from \(text): \(error.reason)")
        }
        guard response.status == 200 else {
            throw ExitStatus.printing(
                .jobFailed, response.text.isEmpty ? "it responds with HTTP \(response.status)" : response.text)
        }
        Terminal.line(response.text)
    }
}
