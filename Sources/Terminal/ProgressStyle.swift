package import ArgumentParser

/// How a command shows the progress of what it waits for: the option `--progress`.
package enum ProgressStyle: String, CaseIterable, ExpressibleByArgument, Sendable {
    /// A line at times, for logs.
    case plain
    /// Bars that are redrawn in place.
    case bar
    case none

    /// Also wget's `dot:giga` and `bar:force`.
    package init?(argument: String) {
        let name = String(argument.prefix { $0 != ":" })
        self.init(rawValue: name == "dot" ? "plain" : name)
    }
}

/// Where the progress goes. Results always go to standard output.
package enum ProgressDestination: Sendable, Equatable {
    case output, error
    /// Lines on standard error.
    case lines
    case nowhere

    /// The destination for a style, or for what the standard streams are if none was given.
    ///
    /// - Parameters:
    ///   - isOutputTaken: Standard output has other content, such as a file or JSON.
    ///   - fallback: The style if neither stream is a terminal, or if the output is for programs.
    package static func choose(
        _ style: ProgressStyle?, isOutputTaken: Bool = false, fallback: ProgressStyle = .none
    ) -> ProgressDestination {
        let terminal: ProgressDestination? =
            !isOutputTaken && Terminal.isInteractive ? .output : Terminal.isErrorInteractive ? .error : nil
        switch style ?? (terminal == nil ? fallback : .bar) {
        case .plain: return .lines
        case .none: return .nowhere
        // Without a terminal, bars would fill a log with escape sequences.
        case .bar: return terminal ?? .lines
        }
    }
}

/// The option of commands that show progress.
package struct ProgressOption: ParsableArguments {
    @Option(
        help:
            "plain: a line at times, bar: bars on a terminal, none. On standard error if standard output is not a terminal. [bar on a terminal]"
    )
    package var progress: ProgressStyle?

    package init() {}
}
