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
            for value in setting.values { text += "\(option.name) = \(masked(value, of: option.name))\n" }
        }
        return text
    }

    private static func masked(_ value: String, of option: String) -> String {
        if value.contains("://") { return MaskedURL.text(value).printable }
        // These may be given without a scheme.
        guard option == "proxy" || option == "redis" else { return value.printable }
        return String(MaskedURL.text("//://" + value).dropFirst(5)).printable
    }
}
