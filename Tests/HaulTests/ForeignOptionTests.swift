import HaulContract
import HaulTestSupport
import Testing

@testable import haul

/// Options of curl, wget, wget2 and aria2, typed by a person who does not know ours.
@Suite struct ForeignOptionTests {
    private func replaced(_ line: String) throws -> String {
        try ForeignArguments.replaced(in: line.split(separator: " ").map(String.init)).joined(separator: " ")
    }

    @Test(
        "an option that is implied is dropped, and one with another name gets it",
        arguments: [
            ("get -fsSL -O https://h/a", "get --quiet https://h/a"),
            ("get -LO https://h/a", "get https://h/a"),
            ("get -fsSLo out https://h/a", "get --quiet -o out https://h/a"),
            ("get -qO- https://h/a", "get -q -o - https://h/a"),
            ("get -T 10 --trust-server-names --no-conf https://h/a", "get --timeout 10 --no-config https://h/a"),
            ("get -s 8 -k 1M -nc https://h/a", "get -x 8 --if-exists skip https://h/a"),
            ("get --continue=true --remote-time=true --quiet=false https://h/a", "get --remote-time https://h/a"),
            ("get --retry-delay 1 -O name https://h/a", "get -o name https://h/a"),
            ("get -s16 -k1M https://h/a", "get -x 16 https://h/a"),
            ("get -O - https://h/a", "get -o - https://h/a"),
            ("get --proto =https --tlsv1.2 -sSf https://h", "get --quiet https://h"),
            ("get -C - -c --continue-at=- https://h/a", "get https://h/a"),
            ("get -e https://r/ https://h/a", "get -H Referer: https://r/ https://h/a"),
            ("get --referer=https://r/ https://h/a", "get -H Referer: https://r/ https://h/a"),
            ("get --retry 3 --tries=4 -t 0 https://h/a", "get --retries 3 --retries 3 --retries 1000 https://h/a"),
            ("get -x http://p:3128 https://h/a", "get --proxy http://p:3128 https://h/a"),
            ("get -x16 -j5 https://h/a", "get -x 16 -j 5 https://h/a"),
            ("get -x 16 --split=8 -P dir https://h/a", "get -x 16 --connections 8 --directory dir https://h/a"),
            ("get --noproxy * --compressed https://h/a", "get --no-proxy https://h/a"),
            (
                "get --auto-file-renaming=false --allow-overwrite=true https://h/a",
                "get --if-exists overwrite https://h/a"
            ),
            ("get --conditional-get=false --timestamping https://h/a", "get -N https://h/a"),
            (
                "get --oauth2-bearer t --cacert c --cert p --key k u",
                "get --bearer t --ca c --client-cert p --client-key k u"
            ),
            ("get --socks5-hostname h:1 --url https://h/a", "get --proxy socks5h://h:1 https://h/a"),
            ("get -o - -- -L", "get -o - -- -L"),
            (
                "get https://h/a --mirror https://m/a -o b --mirror=https://n/a https://h/c --checksum x --mirror d",
                "get https://h/a\thttps://m/a\thttps://n/a\0https://h/c\td -o b --checksum x"
            ),
            ("put -T file -F a=b -F file=@c https://h/", "put file --field a=b --form c https://h/"),
            ("put file --form-string file=@c https://h/", "put file --field file=@c https://h/"),
            ("call -sSL -r 0-9 -D - --data-raw x https://h/", "call -H Range: bytes=0-9 -D - --data x https://h/"),
            ("call -Dfile -g https://h/", "call -D file https://h/"),
            ("call --post-data a=b https://h/", "call --data a=b https://h/"),
            ("call --data-ascii @file https://h/", "call --data @file https://h/"),
            ("get -V", "get --version"), ("-V", "--version"),
            ("get -nH --cut-dirs=1 --seed-time=0 https://h/a", "get https://h/a"),
            ("call -sf -XPUT -d@file https://h/", "call -f -X PUT -d @file https://h/"),
            ("call -x http://p:1 -c jar https://h/", "call --proxy http://p:1 --save-cookies jar https://h/"),
            ("https://h/a", "get https://h/a"), ("-O https://h/a -o b", "get https://h/a -o b"),
            ("push -L https://h/a", "push -L https://h/a"), ("--help", "--help"),
            ("---completion get", "---completion get"),
        ])
    func replaced(_ typed: String, _ expected: String) throws { #expect(try replaced(typed) == expected) }

    @Test(
        "an option without a counterpart is refused in one sentence that names what to give instead",
        arguments: [
            ("get --proxy-cacert f https://h/a", "of servers and of the proxy"),
            ("get --preproxy socks5://h:1 https://h/a", "one proxy is used"),
            ("get --https-proxy http://p:1 https://h/a", "https_proxy"),
            ("get -k https://h/a", "--pin sha256//"), ("get -I https://h/a", "haul call -I URL"),
            ("get -r 0-9 https://h/a", "haul call -H 'Range"),
            ("get -d https://h/a -X POST https://h/b", "haul call -X"),
            ("get -T file https://h/a", "haul put"), ("get --no-clobber https://h/a", "--if-exists skip"),
            ("get -O a/name https://h/a", "-O takes no file, and a/name follows it"),
            ("get -c jar https://h/a", "--save-cookies"), ("get -C 100 https://h/a", "at a given offset"),
            ("get --check-certificate=false https://h/a", "--ca FILE"), ("get -n https://h/a", "--no-netrc in aria2"),
            ("get --proto =ftp https://h/a", "http and https"), ("get --recursive https://h/a", "wget2 -r"),
            ("get --retry", "--retry requires a value"), ("call -O https://h/a", "haul get"),
            ("get -D file https://h/a", "haul call -D FILE"), ("get --tlsv1.3 https://h/a", "OpenSSL"),
            ("call https://h/a --next https://h/b", "join them by &&"), ("put -F a=@b https://h/", "haul call -F"),
            ("call --post-data @file https://h/", "-d would read a file"),
            ("call --body-data=@file https://h/", "-d would read a file"),
        ])
    func refused(_ typed: String, _ sentence: String) async throws {
        let process = try ChildProcess("haul", typed.split(separator: " ").map(String.init))
        #expect(try await process.wait() == 2)
        let error = process.standardError
        #expect(error.contains(sentence) && error.split(separator: "\n").count == 1, "\(error)")
    }

    @Test("the table names only options that the commands have, and hides none of theirs") func table() async throws {
        let help = try ChildProcess("haul", ["--experimental-dump-help"])
        try #require(try await help.wait() == 0)
        let commands = try #require(try JSON(help.standardOutput)["command"]?["subcommands"]?.array)
        for verb in ForeignOption.Verb.allCases {
            let command = try #require(commands.first { $0["commandName"]?.string == verb.rawValue })
            var (own, valued, flags) = (Set<String>(), Set<Character>(), Set<Character>())
            for argument in command["arguments"]?.array ?? [] {
                for name in argument["names"]?.array ?? [] {
                    let text = try #require(name["name"]?.string)
                    let isLong = name["kind"]?.string == "long"
                    own.insert(isLong ? "--\(text)" : "-\(text)")
                    if isLong, verb == .get, argument["kind"]?.string == "option" {
                        #expect(ForeignArguments.longOptionsWithValue[verb]?.contains(text) == true, "\(text)")
                    }
                    guard !isLong, let letter = text.first else { continue }
                    if argument["kind"]?.string == "flag" { flags.insert(letter) } else { valued.insert(letter) }
                }
            }
            #expect(valued == Set(ForeignArguments.shortOptionsWithValue[verb] ?? ""), "\(verb): \(valued)")
            #expect(flags == Set(ForeignArguments.shortFlags[verb] ?? ""), "\(verb): \(flags)")
            var names: Set<String> = []
            for option in ForeignOption.all where option.verbs.contains(verb) {
                for name in option.names {
                    #expect(!own.contains(name), "\(verb) has \(name) itself")
                    #expect(names.insert(name).inserted, "\(name) is twice in the table for \(verb)")
                }
                switch option.meaning {
                case .option(let name), .flag(let name): #expect(own.contains(name), "\(verb) has no \(name)")
                default: break
                }
            }
        }
    }
}
