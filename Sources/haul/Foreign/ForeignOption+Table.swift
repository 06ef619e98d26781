extension ForeignOption {
    private static let certificates =
        "certificates are always verified, because otherwise anyone on the network could send another file. --ca FILE trusts the server's own authority, or the certificate of a single device that signed it itself, and --pin sha256//DIGEST its key"

    private static let tls = "the versions and ciphers of TLS are those of the system's OpenSSL"

    static let all: [ForeignOption] = [
        // Always so, or without a meaning here.
        ForeignOption("-L --location", .none, .implied),
        ForeignOption("-S --show-error", .none, .implied),
        ForeignOption("-f --fail", .none, .implied, in: .get, .put),
        ForeignOption(
            "-# --progress-bar --no-progress-meter --show-progress --force-progress -nv --no-verbose", .none, .implied),
        ForeignOption("-J --remote-header-name --content-disposition --trust-server-names", .none, .implied, in: .get),
        ForeignOption(
            "-Z --parallel-immediate --create-dirs --remove-on-error -nd --no-directories -nH --no-host-directories --no-hsts",
            .none, .implied, in: .get),
        // What an earlier download knows of the server's version is in the download log.
        ForeignOption("--etag-save --etag-compare --cut-dirs", .required, .implied, in: .get),
        ForeignOption("--compressed", .none, .implied),
        ForeignOption("--no-buffer", .none, .implied),
        ForeignOption(
            "--http1.1 --tlsv1.2 --ssl-reqd --ssl-no-revoke --tcp-nodelay --no-keepalive --basic", .none, .implied),
        ForeignOption("--keepalive-time", .required, .implied),
        ForeignOption("-g --globoff", .none, .implied, in: .put, .call),
        ForeignOption("-V", .none, .flag("--version")),
        ForeignOption("--retry-connrefused --retry-all-errors", .none, .implied),
        ForeignOption(
            "--always-resume --check-integrity --enable-color --enable-http-pipelining --human-readable --no-netrc --show-console-readout --async-dns --realtime-chunk-checksum --allow-piece-length-change",
            .optional, .implied, in: .get),
        ForeignOption("--no-conf", .optional, .flag("--no-config"), in: .get),
        ForeignOption("--follow-torrent --http-accept-gzip", .optional, .implied, in: .get),
        ForeignOption("--follow-metalink", .optional, .special(.followMetalink), in: .get),
        ForeignOption(
            "--file-allocation --min-split-size --piece-length --disk-cache --uri-selector --summary-interval --auto-save-interval",
            .required, .implied, in: .get),
        ForeignOption(
            "--console-log-level --log-level --download-result --seed-time --stream-piece-selector --max-file-not-found",
            .required, .implied, in: .get),
        ForeignOption("--stderr --local-encoding --restrict-file-names", .required, .implied, in: .get),
        ForeignOption("-O --remote-name --remote-name-all", .none, .special(.remoteName), in: .get),
        ForeignOption("-c", .none, .special(.shortContinue), in: .get),
        ForeignOption("-C --continue-at", .required, .special(.continueAt), in: .get, .put),
        ForeignOption("--proto --proto-redir", .required, .special(.proto)),
        // The same under another name.
        ForeignOption("-s --silent --no-progress", .none, .flag("--quiet"), in: .get, .put),
        ForeignOption("-s --silent -N", .none, .implied, in: .call),
        ForeignOption("-e --referer", .required, .header("Referer")),
        ForeignOption("-P --directory-prefix --output-dir --dir", .required, .option("--directory"), in: .get),
        ForeignOption("--output-document --out", .required, .option("--output"), in: .get),
        ForeignOption("--output-document", .required, .option("--output"), in: .call),
        ForeignOption(
            "--max-concurrent-downloads --parallel-max --max-threads", .required, .option("--parallel"), in: .get, .put),
        ForeignOption("--split --max-connection-per-server", .required, .option("--connections"), in: .get),
        ForeignOption(
            "--max-overall-download-limit --max-download-limit", .required, .option("--limit-rate"), in: .get),
        ForeignOption("-Y --speed-limit --lowest-speed-limit", .required, .option("--min-speed"), in: .get),
        ForeignOption("-y --speed-time", .required, .refused("--min-speed is measured over 30 seconds"), in: .get),
        ForeignOption("--retry", .required, .option("--retries")),
        ForeignOption("-t --tries --max-tries", .required, .special(.tries)),
        // Pauses grow by themselves, and a server's Retry-After counts.
        ForeignOption("--retry-delay --retry-wait --waitretry", .required, .implied),
        ForeignOption(
            "--retry-max-time", .required, .refused("--max-time limits each transfer with all of its attempts")),
        ForeignOption("--read-timeout --stall-timeout", .required, .option("--timeout"), in: .get, .put),
        ForeignOption("--oauth2-bearer", .required, .option("--bearer")),
        ForeignOption("-n", .none, .special(.netrc)),
        ForeignOption("--netrc-optional", .none, .flag("--netrc")),
        ForeignOption("--netrc-path", .required, .option("--netrc-file")),
        ForeignOption("-T", .required, .special(.timeout), in: .get),
        ForeignOption("--load-cookies", .required, .option("--cookie"), in: .get, .call),
        ForeignOption("--cookie-jar", .required, .option("--save-cookies")),
        ForeignOption("-c", .required, .option("--save-cookies"), in: .put, .call),
        ForeignOption("--cacert --ca-certificate", .required, .option("--ca")),
        ForeignOption(
            "--proxy-cacert", .required,
            .refused("--ca names the authority of servers and of the proxy alike: give a file with all that you trust")),
        ForeignOption("-E --cert --certificate", .required, .option("--client-cert")),
        ForeignOption("--key --private-key", .required, .option("--client-key")),
        ForeignOption("--pinnedpubkey", .required, .option("--pin")),
        ForeignOption("--all-proxy", .required, .option("--proxy")),
        ForeignOption(
            "--http-proxy --https-proxy", .required,
            .refused("--proxy is for all URLs, and the variables http_proxy and https_proxy are for one scheme")),
        ForeignOption("--preproxy", .required, .refused("one proxy is used, the one of --proxy")),
        ForeignOption("-x", .required, .option("--proxy"), in: .put, .call),
        ForeignOption("--socks5 --socks5-hostname", .required, .special(.socks)),
        ForeignOption("--noproxy", .required, .special(.noProxyFor)),
        ForeignOption("--timestamping --conditional-get", .optional, .flag("-N"), in: .get),
        ForeignOption("--allow-overwrite", .optional, .special(.allowOverwrite), in: .get),
        ForeignOption("--auto-file-renaming", .optional, .special(.autoRenaming), in: .get),
        ForeignOption("-nc --skip-existing", .none, .special(.skipExisting), in: .get),
        ForeignOption("--metalink-file", .required, .option("--metalink"), in: .get),
        ForeignOption("--url", .required, .argument),
        ForeignOption("--inet4-only --disable-ipv6", .optional, .flag("-4")),
        ForeignOption("--inet6-only", .none, .flag("-6")),
        ForeignOption("--bind-address", .required, .option("--interface")),
        ForeignOption("-T --upload-file", .required, .argument, in: .put),
        ForeignOption("-F", .required, .special(.form), in: .put),
        ForeignOption("--form-string", .required, .option("--field"), in: .put),
        ForeignOption("--data-raw --post-data --body-data", .required, .special(.rawData), in: .call),
        ForeignOption("--data-ascii", .required, .option("--data"), in: .call),
        ForeignOption("--post-file --body-file", .required, .refused("-d @FILE sends a file as the body"), in: .call),
        ForeignOption("--method", .required, .option("--request"), in: .put, .call),
        ForeignOption("--url-query", .required, .option("--query"), in: .call),
        ForeignOption("-r --range", .required, .header("Range"), in: .call),
        ForeignOption("--server-response --save-headers", .none, .flag("--include"), in: .call),
        ForeignOption("--spider --dry-run", .optional, .flag("--head"), in: .call),
        ForeignOption("--fail-with-body --content-on-error", .none, .implied, in: .call),
        // Not here: our way.
        ForeignOption("-k --insecure --no-check-certificate", .none, .refused(certificates)),
        ForeignOption("--check-certificate", .optional, .special(.checkCertificate)),
        ForeignOption(
            "-I --head --spider --dry-run --server-response", .optional,
            .refused("haul call -I URL shows the status and the header fields"), in: .get),
        ForeignOption(
            "--fail-with-body --content-on-error", .none,
            .refused("haul call URL prints the response, also that of an error"), in: .get),
        ForeignOption("--include", .none, .refused("haul call -i URL prints the header fields and the body"), in: .get),
        ForeignOption(
            "-D --dump-header", .required, .refused("haul call -D FILE URL writes the header fields"), in: .get),
        ForeignOption(
            "-r --range", .required,
            .refused(
                "it downloads whole files, and only those of the given URLs. haul call -H 'Range: bytes=0-99' URL requests a range, and wget2 -r follows links"
            ), in: .get),
        ForeignOption(
            "-X --request --method --data --data-raw --data-binary --post-data --post-file -F --form -G", .required,
            .refused("haul call -X METHOD -d DATA URL sends any request, and prints the response"), in: .get),
        ForeignOption("--upload-file", .required, .refused("haul put FILE URL uploads a file"), in: .get, .call),
        ForeignOption("-T", .required, .refused("haul put FILE URL uploads a file"), in: .call),
        ForeignOption(
            "--location-trusted", .none,
            .refused("credentials go only to the servers of the given URLs; --netrc has those of every host")),
        ForeignOption(
            "--dns-timeout", .required, .refused("--connect-timeout covers the name, the connection and TLS together")),
        ForeignOption(
            "-O --remote-name -J", .none, .refused("haul get URL saves a file under the server's name"), in: .call),
        ForeignOption(
            "-U", .required,
            .refused("--user-agent names the program, and --proxy takes http://USER:PASSWORD@HOST:PORT")),
        ForeignOption(
            "--proxy-user --proxy-passwd --all-proxy-user --all-proxy-passwd", .required,
            .refused("--proxy takes http://USER:PASSWORD@HOST:PORT")),
        ForeignOption(
            "--http-user --http-passwd --http-password --password", .required, .refused("-u USER:PASSWORD sets both")),
        ForeignOption(
            "--no-clobber", .none,
            .refused("--if-exists skip leaves an existing file, and --if-exists rename gives the new one a number"),
            in: .get),
        ForeignOption(
            "-z --time-cond", .required, .refused("-N downloads only what is newer than the file here"), in: .get),
        ForeignOption(
            "--max-redirs --max-redirect", .required, .refused("at most 10 redirects are followed"), in: .get, .call,
            .put),
        ForeignOption("-K --conf-path", .required, .refused("--config FILE reads defaults for options"), in: .get),
        ForeignOption("-K --config", .required, .refused("options are given as arguments"), in: .put, .call),
        ForeignOption(
            "--on-download-complete --on-download-error", .required,
            .refused("--on-complete and --on-error run a command that gets the event as JSON on its standard input"),
            in: .get),
        ForeignOption(
            "--recursive --page-requisites --convert-links --no-parent -np", .none,
            .refused("it fetches only the given URLs; wget2 -r reads pages and follows their links"), in: .get),
        ForeignOption(
            "--background --daemon", .optional, .refused("haul push URL gives the download to a worker"), in: .get),
        ForeignOption(
            "--wait --limit-requests --rate", .required, .refused("-j 1 downloads one file after another"), in: .get),
        ForeignOption(
            "-Q --quota --max-filesize", .required, .refused("max_bytes of a line in a list limits a file"), in: .get),
        ForeignOption(
            "--enable-rpc", .optional, .refused("haul web --aria2 answers the RPC of aria2, for workers"), in: .get),
        ForeignOption(
            "--http2 --http3 --http2-prior-knowledge -0 --http1.0", .none,
            .refused("HTTP/2 is used where a server speaks nothing else, and HTTP/1.1 otherwise")),
        ForeignOption("--tlsv1.3", .none, .refused(tls)),
        ForeignOption(
            "--tls-max --ciphers --tls13-ciphers --secure-protocol --min-tls-version", .required, .refused(tls)),
        ForeignOption(
            "--doh-url --dns-servers --async-dns-server", .required,
            .refused("names are resolved as this host does it; --resolve gives a name an address")),
        ForeignOption(
            "-: --next --fail-early", .none,
            .refused(
                "options count for all URLs: give a command for each, and join them by && to end at the first failure")),
        ForeignOption(
            "--trace --trace-ascii --log", .required, .refused("-v shows addresses, TLS, redirects and times")),
        ForeignOption("--debug", .none, .refused("-v shows addresses, TLS, redirects and times")),
        ForeignOption(
            "--save-session", .required, .refused("--continue continues what earlier commands left unfinished"),
            in: .get),
        ForeignOption("--ntlm --negotiate", .none, .refused("Basic and Digest are the only kinds of authentication")),
        ForeignOption(
            "--enable-dht --listen-port --torrent-file", .required,
            .refused("it knows no BitTorrent; aria2 does"), in: .get),
    ]
}
