import ArgumentParser
import HaulContract
import HaulTerminal

/// The URLs of a command line in one word.
package enum GetURLs {
    /// No argument of a process can contain it.
    package static let separator = "\0"

    static func split(_ words: [String]) -> [String] {
        words.flatMap { word in
            word.utf8.split(separator: 0, omittingEmptySubsequences: false).map { String(Substring($0)) }
        }
    }
}

/// The values of `-o`.
package enum GetOutput {
    /// Whether bytes are written there as they arrive: to standard output, a pipe or a device.
    package static func isStream(_ output: String) -> Bool {
        Terminal.outputPath(output) == "-" || GetTarget.isStream(output)
    }

    /// Whether it says by itself in which directory the file is, or is one.
    package static func namesDirectory(_ output: String) -> Bool {
        output.hasPrefix("/") || GetTarget.isBucket(output) || GetTarget.isDirectory(output)
    }
}

/// The options that say what to download, and where to put it.
struct GetSourceOptions: ParsableArguments {
    @Argument(
        help: ArgumentHelp(
            "URLs, with https:// if they have no scheme. [1-9], [01-10], [a-z] and {a,b} stand for several. A URL or file that ends in .meta4 is read as --metalink.",
            valueName: "urls"),
        completion: .file(extensions: ["meta4"]))
    private var words: [String] = []

    /// The URLs, each with its mirrors after tabs.
    var urls: [String] { GetURLs.split(words) }

    @Option(
        name: [.customShort("i", allowingJoined: true), .long],
        help:
            "Read more from this file or URL, or - for standard input: a URL or a JSON job on each line. May be repeated.",
        completion: .file())
    var inputFile: [String] = []
    @Option(
        name: [.customShort("M", allowingJoined: true), .long],
        help: "The files of a Metalink 4 file or URL, with its mirrors and checksums. May be repeated.",
        completion: .file())
    var metalink: [String] = []
    @Flag(
        name: .customLong("no-follow-metalink"),
        help:
            "Save a Metalink as a file. Otherwise a URL whose name or Content-Type is that of a Metalink stands for the Metalink's files, unless -o NAME or --checksum is about the URL's own file."
    )
    var keepsMetalinks = false
    @Option(
        name: [.customShort("o", allowingJoined: true), .customLong("output")],
        help:
            "A file's name, in which #1 is what the first [] or {} of the URL stands for; a directory that exists, or a name that ends in /; - for standard output, a pipe or a device. May be repeated: one for each URL.",
        completion: .file(), transform: Terminal.outputPath)
    var outputs: [String] = []
    @Option(help: "Another URL of the file before it. May be repeated.") var mirror: [String] = []
    @Flag(name: [.customShort("g"), .customLong("globoff")], help: "Take [] and {} in URLs as they are.")
    var takesBrackets = false
    @Option(
        name: [.customShort("d", allowingJoined: true), .long],
        help: "The directory, which is made if it is missing, or s3://BUCKET/PREFIX.", completion: .directory)
    var directory: String?
    @Option(
        help:
            "The file's checksum: sha256:…, sha512:…, sha1:… or md5:…, also as aria2 and HTML write it, or its digits alone."
    )
    var checksum: String?
    @Option(
        help: "A file or URL: checksums by file name, as sha256sum writes them. May be repeated.", completion: .file())
    var checksumFile: [String] = []
    @Option(
        help:
            "What to do if a file with the name exists: reuse (keep it if it is the same, else fail), overwrite, rename, fail or skip."
    )
    var ifExists = ExistingPolicy.reuse
    @Flag(
        name: [.customShort("N"), .long],
        help: "Download only if the server's file is newer, and replace the file here."
    )
    var newer = false
    @Flag(
        name: .customLong("continue"),
        help: "Also continue all unfinished downloads of earlier commands in the directory and below it.")
    var continues = false
    @Flag(help: "Remove the unfinished downloads of earlier commands there.") var forget = false

    @OptionGroup var configuration: ConfigurationOptions

    /// The one `-o` for all URLs; nil if there are several, or one with `#1`.
    var output: String? { outputs.count == 1 && !outputs[0].contains("#") ? outputs[0] : nil }

    var isToStandardOutput: Bool { outputs.contains("-") }

    /// Whether bytes are written as they arrive: to standard output, a pipe or a device.
    var isStreaming: Bool { outputs.contains(where: isStream) }

    private func isStream(_ output: String) -> Bool { GetOutput.isStream(stream(of: output)) }

    /// The pipe or the device that an `-o` names; `-` is standard output.
    func stream(of output: String) -> String { output == "-" ? output : path(of: output) }

    /// Whether an argument stands for the files of a Metalink by its name.
    func isMetalink(_ url: String) -> Bool {
        guard Metalink.isNamed(url), TextFile.isURL(url) else { return Metalink.isNamed(url) }
        return !keepsMetalinks && checksum == nil && outputs.allSatisfy(GetTarget.isDirectory)
    }

    private func path(of output: String) -> String { directory.map { $0 + "/" + output } ?? output }

    private var hasLists: Bool { !inputFile.isEmpty || !metalink.isEmpty || continues }

    /// A list may name one file, and is counted once it is read (`GetPlan`).
    private var namesSeveralFiles: Bool { urls.count > 1 || continues || urls.contains(where: hasPatterns) }

    /// - Parameter url: A URL with its mirrors, which may have as many patterns.
    private func hasPatterns(_ url: String) -> Bool {
        !takesBrackets && ((try? URLPattern(String(url.prefix { $0 != "\t" })).urls.count) ?? 1) > 1
    }

    /// Checks that options about one file are not given for several. This is not part of `validate`, because there the
    /// value of an unknown option still counts as a URL. The error would be about several URLs, not that option.
    ///
    /// - Throws: `ExitStatus.usage`; the reason has been printed.
    func checkSingleFileOptions() throws {
        if checksum != nil, namesSeveralFiles || hasLists {
            throw ExitStatus.printing(
                .usage, "--checksum is about one file, and several may be given: use --checksum-file for several")
        }
        if outputs.count > 1 {
            guard outputs.count == urls.count, !hasLists else {
                throw ExitStatus.printing(
                    .usage,
                    "several -o name one file for each URL: \(outputs.count) are given for \(urls.count) URLs\(hasLists ? " and a list" : "")"
                )
            }
        }
        guard namesSeveralFiles, let output, !isStreaming else { return }
        guard GetTarget.isDirectory(output) else { throw Self.namesOneFile(output, "several may be given") }
    }

    static func namesOneFile(_ output: String, _ given: String) -> ExitStatus {
        ExitStatus.printing(
            .usage, "-o \(output) names one file, and \(given): end it in / for a directory, or use -d")
    }

    /// Neither a URL nor a list is given.
    var namesNothing: Bool { urls.isEmpty && !hasLists }

    func validate() throws {
        guard mirror.isEmpty else {
            throw ValidationError(
                "--mirror \(MaskedURL.keepingQuery(mirror[0])) is another URL of the file before it: give that file's URL first."
            )
        }
        guard !urls.contains("") else { throw ValidationError("A URL is empty: is a variable of the shell not set?") }
        if newer, ifExists == .rename || ifExists == .fail || ifExists == .skip {
            throw ValidationError(
                "-N replaces an older file, and --if-exists \(ifExists.rawValue) does not: give one of them.")
        }
        for output in outputs { try validate(output) }
        guard !isStreaming || !continues && !forget else {
            throw ValidationError(
                "--continue and --forget are about files, and -o names standard output, a pipe or a device: give one of them."
            )
        }
        guard !isStreaming || outputs.allSatisfy(isStream) else {
            throw ValidationError("-o names files as well as standard output, a pipe or a device: give one kind.")
        }
    }

    private func validate(_ output: String) throws {
        guard !output.isEmpty else { throw ValidationError("-o names neither a file nor a directory.") }
        if output == "-" {
            guard directory == nil else {
                throw ValidationError("-o - writes to standard output: give no directory.")
            }
            return
        }
        guard directory == nil || !output.hasPrefix("/") && !output.hasSuffix("/") else {
            throw ValidationError("-o names a file in the directory of -d: it can neither begin nor end with /.")
        }
        let path = path(of: output)
        guard !GetTarget.isSpecialFile(path) || GetTarget.isStream(path) else {
            throw ValidationError("\(path) is neither a file, a pipe nor a directory: choose another path.")
        }
        let name = output.split(separator: "/").last.map(String.init) ?? ""
        guard name.utf8.count <= 255 else {
            throw ValidationError("-o: a file's name has at most 255 bytes, and this one has \(name.utf8.count).")
        }
    }
}
