import ArgumentParser

@main
struct Haul: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "haul", abstract: "A fleet of download workers on Redis.")
}
