import ArgumentParser
import HaulContract

/// The options of a command that may also come from the environment or a file.
struct OptionTable {
    struct Option {
        /// As on the command line, without the dashes.
        let name: String
        let isFlag: Bool
        let isRepeating: Bool
        let defaultValue: String?

        /// `HAUL_LIMIT_RATE`
        var variable: String { "HAUL_" + name.uppercased().replacing("-", with: "_") }
        /// The variable with the path of a file whose text is the value.
        var fileVariable: String { variable + "_FILE" }
    }

    /// Options that are not settings. `config` names the source of settings; the others print something and end the
    /// command.
    private static let excluded: Set<String> = ["help", "version", "config", "print-config"]

    let command: String
    let options: [Option]

    /// The table of a command of `haul`, made from its help; nil if there is no such command.
    init?(of command: String) {
        guard let commands = (try? JSON(Haul._dumpHelp()))?["command"]?["subcommands"]?.array,
            let help = commands.first(where: { $0["commandName"]?.string == command })
        else { return nil }
        self.command = command
        options = (help["arguments"]?.array ?? []).compactMap { argument in
            let kind = argument["kind"]?.string
            let long = argument["names"]?.array?.first { $0["kind"]?.string == "long" }?["name"]?.string
            guard kind != "positional", let long, !Self.excluded.contains(long) else { return nil }
            return Option(
                name: long, isFlag: kind == "flag", isRepeating: argument["isRepeating"] == .bool(true),
                defaultValue: argument["defaultValue"]?.string)
        }
    }

    func option(_ name: some StringProtocol) -> Option? { options.first { $0.name == name } }
}
