import HaulContract
import HaulTerminal

/// What `--print-config` prints: a file of settings that says where each comes from, without secrets.
enum PrintedSettings {
    static func text(of settings: Settings, _ table: OptionTable) -> String {
        var text = "# The settings of haul \(table.command). Secrets of URLs are left out.\n"
        for option in table.options {
            guard let setting = settings.settings.first(where: { $0.name == option.name }) else {
                let value = option.isFlag ? "false" : option.defaultValue ?? ""
                text += value.isEmpty ? "# \(option.name) =\n" : "# \(option.name) = \(value)\n"
                continue
            }
            text += "# from \(setting.source):\n"
            for value in setting.values { text += "\(option.name) = \(masked(value))\n" }
        }
        return text
    }

    private static func masked(_ value: String) -> String {
        (value.contains("://") ? MaskedURL.text(value) : value).printable
    }
}
