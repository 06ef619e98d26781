# shellcheck shell=bash disable=SC2034
# Sourced: makes libcurl for the archive of a release, from Debian's source package.

# What is needed to build it.
CURL_PACKAGES=(dpkg-dev gcc libc6-dev make pkg-config libssl-dev libnghttp2-dev libidn2-dev)

# curl_library DIRECTORY: makes libcurl.so.4 there, and the files `version` and `copyright`. It speaks only what Haul does:
# HTTP and HTTPS, also by proxies. Debian's own can do more, and so needs 22 more libraries (LDAP, Kerberos, SSH, RTMP,
# a second TLS). To load them takes as long as to download a small file. Security fixes are Debian's, of this day.
curl_library() (
    set -euo pipefail
    mkdir -p "$1/lists/partial" && cd "$1"
    # shellcheck disable=SC2016 # apt replaces it
    apt-get indextargets --format 'deb-src $(REPO_URI) $(RELEASE) main' 'Created-By: Packages' 'Origin: Debian' 'Component: main' |
        sort -u >sources.list
    own=(-o "Dir::Etc::SourceList=$PWD/sources.list" -o Dir::Etc::SourceParts=/dev/null -o "Dir::State::Lists=$PWD/lists"
        -o APT::Sandbox::User=root)
    { apt-get "${own[@]}" update && apt-get "${own[@]}" --download-only source curl; } >log 2>&1 || { tail -n 20 log >&2; exit 1; }
    # apt has verified the files by the signed list of the mirror.
    dpkg-source --no-check --skip-patches --no-copy -x curl_*.dsc source >>log 2>&1
    cd source
    # The last patches turn it into the variants for other libraries of TLS.
    sed -i '/gnutls\.patch$/d; /nss\.patch$/d' debian/patches/series
    dpkg-source --before-build . >>../log 2>&1
    export DEB_BUILD_MAINT_OPTIONS=hardening=+all
    eval "$(dpkg-buildflags --export=sh)"
    { ./configure --disable-dependency-tracking --enable-versioned-symbols --disable-static --enable-threaded-resolver \
        --with-openssl --with-nghttp2 --with-libidn2 --with-ca-path=/etc/ssl/certs \
        --with-ca-bundle=/etc/ssl/certs/ca-certificates.crt \
        --without-{libssh2,librtmp,libpsl,gssapi,brotli,zstd,zlib} \
        --disable-{ldap,ldaps,ftp,file,dict,telnet,tftp,rtsp,pop3,imap,smb,smtp,gopher,mqtt,ntlm,tls-srp,alt-svc,hsts,manual} &&
        make -C lib -j "$(nproc)"; } >>../log 2>&1 || { tail -n 20 ../log >&2; exit 1; }
    strip --strip-unneeded --remove-section=.comment --remove-section=.note -o ../libcurl.so.4 lib/.libs/libcurl.so.4
    install -m 644 debian/copyright ../copyright
    dpkg-parsechangelog -S Version >../version
    cd .. && rm -rf source lists
)
