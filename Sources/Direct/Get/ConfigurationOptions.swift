import ArgumentParser

/// The options about the file of defaults.
struct ConfigurationOptions: ParsableArguments {
    @Option(
        help: "Read defaults for options from this file. [$XDG_CONFIG_HOME/haul/get.conf]", completion: .file())
    var config: String?
    @Flag(help: "Read no file of defaults.") var noConfig = false
    @Flag(help: "Print the defaults, with the lines that they come from, and end.") var printConfig = false

    func validate() throws {
        guard config == nil || !noConfig else { throw ValidationError("--config and --no-config exclude each other.") }
    }

    /// - Throws: `ExitStatus.usage`; the reason has been printed.
    func read() throws -> GetConfiguration? { noConfig ? nil : try GetConfiguration(named: config) }
}
