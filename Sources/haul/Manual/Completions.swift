import ArgumentParser
import HaulTerminal

/// Scripts that complete words in shells, made from the same declarations as `--help`.
struct Completions: ParsableCommand {
    enum Shell: String, CaseIterable, ExpressibleByArgument { case bash, zsh, fish }

    static let configuration = CommandConfiguration(
        abstract: "Print a shell's script that completes commands, options, ids of jobs and names of queues.",
        discussion: """
            bash: source <(haul completions bash), or put it into /usr/share/bash-completion/completions/haul. \
            zsh: put it into a directory of $fpath as _haul. \
            fish: put it into ~/.config/fish/completions/haul.fish.
            """)
    @Argument(help: "bash, zsh or fish.") var shell: Shell

    func run() throws {
        guard let known = CompletionShell(rawValue: shell.rawValue) else { return }
        let script = Haul.completionScript(for: known)
        Terminal.write(script.hasSuffix("\n") ? script : script + "\n")
    }
}
