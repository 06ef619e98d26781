import ArgumentParser
import Glibc
import HaulTerminal

/// For the health check of a container whose image has no other HTTP client.
struct Health: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "health", abstract: "Ask a worker whether it is healthy.",
        discussion:
            "Exit status: 0 if it is healthy, 1 if it is not or does not answer. docs/metrics.md says what is checked.")

    @Argument(help: "The worker's --http address: HOST:PORT, [IPv6]:PORT, :PORT or unix:PATH. [HAUL_HTTP]")
    var address: String?
    @Flag(help: "Ask whether it takes jobs (/readyz), not whether it works (/healthz).") var ready = false
    @Option(help: "Seconds to wait for the answer.") var timeout = 3

    func run() throws {
        guard let text = address ?? Environment.text("HAUL_HTTP") else {
            throw ExitStatus.because(.usage, "give the address that the worker's --http has, or HAUL_HTTP")
        }
        guard let place = HealthEndpoint(text) else {
            throw ExitStatus.because(.usage, "\"\(text)\" is no address: HOST:PORT, [IPv6]:PORT, :PORT or unix:PATH")
        }
        guard (1...600).contains(timeout) else {
            throw ExitStatus.because(.usage, "--timeout must be from 1 to 600 seconds")
        }
        let path = ready ? "/readyz" : "/healthz"
        let answer: HealthResponse
        do throws(HealthEndpoint.Unreachable) { answer = try place.ask(path, seconds: timeout) } catch {
            throw ExitStatus.because(.jobFailed, "no answer from \(text): \(error.reason)")
        }
        guard answer.status == 200 else {
            throw ExitStatus.because(.jobFailed, answer.text.isEmpty ? "it answers HTTP \(answer.status)" : answer.text)
        }
        Terminal.line(answer.text)
    }
}
