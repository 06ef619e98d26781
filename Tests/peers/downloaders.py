#!/usr/bin/env python3
"""Runs every row of docs/evaluate/downloaders.md with haul get, aria2, wget2 and curl, against its own server on loopback.

  Tests/peers/downloaders.py .build/release/haul            # all rows, some minutes
  Tests/peers/downloaders.py .build/release/haul kill name  # rows whose names begin so

It prints a table with a row for each question, and what each program did. It ends what it starts, and leaves nothing.
"""

import base64
import email.utils
import gzip
import hashlib
import http.server
import os
import pathlib
import random
import shutil
import signal
import socket
import socketserver
import ssl
import struct
import subprocess
import sys
import tempfile
import threading
import time

TOOLS = ("haul", "aria2", "wget2", "curl")
OLD, NEW = "Sun, 06 Nov 1994 08:49:37 GMT", "Mon, 07 Nov 1994 08:49:37 GMT"
SIZE = 2_000_000
VERSIONS = [random.Random(seed).randbytes(SIZE) for seed in (1, 2)]
SHA = [hashlib.sha256(body).hexdigest() for body in VERSIONS]


class Origin:
    """The state that all handlers share."""

    def __init__(self):
        self.lock, self.open = threading.Lock(), 0
        self.reset()

    def reset(self):
        with self.lock:
            self.requests, self.most, self.version, self.failures, self.sent, self.received = [], 0, 0, {}, 0, None

    def rest(self):
        """Waits while the responses of interrupted downloads are still being sent."""
        end = time.time() + 10
        while self.open and time.time() < end:
            time.sleep(0.02)

    def seen(self, header):
        with self.lock:
            return [headers.get(header) for _, _, headers in self.requests if headers.get(header)]


ORIGIN = Origin()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def answer(self, status, body=b"", **headers):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def do_GET(self):
        path = self.path.split("?")[0]
        if path.startswith("http://"):
            path = "/" + path.split("/", 3)[3]
        headers = {name.lower(): value for name, value in self.headers.items()}
        with ORIGIN.lock:
            ORIGIN.requests.append((self.command, self.path, headers))
        if path.startswith("/basic") and not headers.get("authorization", "").startswith("Basic"):
            return self.answer(401, WWW_Authenticate='Basic realm="r"')
        if path.startswith("/digest") and not headers.get("authorization", "").startswith("Digest"):
            return self.answer(401, WWW_Authenticate='Digest realm="r", nonce="n", qop="auth", algorithm=MD5')
        if path.startswith("/ntlm"):
            challenge = self.ntlm_challenge(headers.get("authorization", ""))
            if challenge:
                return self.answer(401, WWW_Authenticate=challenge)
        if path.startswith("/bearer") and headers.get("authorization") != "Bearer token":
            return self.answer(401)
        if path.startswith("/cookie") and "a=b" not in headers.get("cookie", ""):
            return self.answer(403)
        if path.startswith("/absent"):
            return self.answer(404)
        if path.startswith("/trouble"):
            if self.count(path) == 1:
                return self.answer(503)
        if path == "/page.html":
            return self.answer(200, b'<html><a href="/linked.bin">x</a></html>', Content_Type="text/html")
        if path == "/robots.txt":
            return self.answer(404)
        if path == "/list.meta4":
            return self.answer(200, metalink(self.server.server_port), Content_Type="application/metalink4+xml")
        if path == "/release":
            return self.answer(302, Location="/typed")
        if path == "/latest":
            return self.answer(302, Location="/prog-1.2.zip")
        if path == "/named":
            return self.answer(200, b"named", Content_Disposition="attachment; filename=given.bin")
        if path == "/error":
            return self.answer(400, b"why it failed")
        if path == "/coded" and "gzip" in headers.get("accept-encoding", ""):
            return self.answer(200, gzip.compress(bytes(1000)), Content_Encoding="gzip")
        if path == "/coded":
            return self.answer(200, bytes(1000))
        if path == "/hang":
            return time.sleep(20)
        if path == "/typed":
            return self.answer(200, metalink(self.server.server_port), Content_Type="application/metalink4+xml")
        self.file(path, headers)

    do_HEAD = do_POST = do_GET

    def do_PUT(self):
        body = b""
        if self.headers.get("Transfer-Encoding") == "chunked":
            while size := int(self.rfile.readline(), 16):
                body += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
        else:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        with ORIGIN.lock:
            ORIGIN.received = len(body)
        self.answer(201)

    @staticmethod
    def ntlm_challenge(authorization):
        """The next challenge (MS-NLMP 2.2.1). None once the client has sent a third message, whatever its content."""
        if not authorization.startswith("NTLM "):
            return "NTLM"
        if base64.b64decode(authorization[5:])[8] == 3:
            return None
        second = b"NTLMSSP\0" + struct.pack("<IQI8s", 2, 0, 0x201, b"12345678") + bytes(16)
        return "NTLM " + base64.b64encode(second).decode()

    @staticmethod
    def count(path):
        """How many times this was called for a path."""
        with ORIGIN.lock:
            ORIGIN.failures[path] = ORIGIN.failures.get(path, 0) + 1
            return ORIGIN.failures[path]

    def file(self, path, headers):
        with ORIGIN.lock:
            version = ORIGIN.version
        body, etag, date = VERSIONS[version], f'"v{version}"', (OLD, NEW)[version]
        if path.startswith("/once"):
            body = body[:50_000]
        since = headers.get("if-modified-since") if "if-none-match" not in headers else None
        is_old = since and email.utils.parsedate_to_datetime(since) >= email.utils.parsedate_to_datetime(date)
        if headers.get("if-none-match") == etag or is_old:
            return self.answer(304, ETag=etag)
        first, last = 0, len(body) - 1
        span, condition = headers.get("range"), headers.get("if-range")
        status = 200
        if span and (condition is None or condition in (etag, date)):
            start, _, end = span.removeprefix("bytes=").partition("-")
            first, last = int(start or 0), min(int(end or last), last)
            if first > last:
                return self.answer(416, Content_Range=f"bytes */{len(body)}")
            status = 206
        self.send_response(status)
        self.send_header("ETag", etag)
        self.send_header("Last-Modified", date)
        self.send_header("Accept-Ranges", "bytes")
        if path.startswith("/setcookie"):
            self.send_header("Set-Cookie", "kept=yes; Max-Age=9999; Path=/")
        if path.startswith("/wrongdigest"):
            self.send_header("Repr-Digest", "sha-256=:" + base64.b64encode(bytes(32)).decode() + ":")
        if status == 206:
            self.send_header("Content-Range", f"bytes {first}-{last}/{len(body)}")
        self.send_header("Content-Length", str(last + 1 - first))
        self.end_headers()
        if self.command == "HEAD":
            return
        stalls = path.startswith("/stall") and status == 206 and self.count(path) == 2
        with ORIGIN.lock:
            ORIGIN.open += 1
            ORIGIN.most = max(ORIGIN.most, ORIGIN.open)
        try:
            for position in range(first, last + 1, 20_000):
                if stalls and position + 20_000 > last:
                    # The last bytes never come. The connection ends when its client closes it.
                    self.connection.settimeout(90)
                    return self.connection.recv(1)
                piece = body[position : min(position + 20_000, last + 1)]
                self.wfile.write(piece)
                with ORIGIN.lock:
                    ORIGIN.sent += len(piece)
                if path.startswith(("/slow", "/stall", "/crawl")):
                    time.sleep(1 if path.startswith("/crawl") else 0.05)
        except OSError:
            self.close_connection = True
        finally:
            with ORIGIN.lock:
                ORIGIN.open -= 1


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, *_):
        pass


class UnixServer(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True


def metalink(port):
    return f"""<?xml version="1.0"?><metalink xmlns="urn:ietf:params:xml:ns:metalink"><file name="meta.bin">
<size>{SIZE}</size><hash type="sha-256">{SHA[0]}</hash><url priority="1">http://127.0.0.1:{port}/absent.bin</url>
<url priority="2">http://127.0.0.1:{port}/f.bin</url></file></metalink>""".encode()


class Bench:
    """One program in a directory of its own."""

    def __init__(self, tool, program, root, port):
        self.tool, self.program, self.port = tool, program, port
        self.directory = pathlib.Path(tempfile.mkdtemp(dir=root))
        self.home = pathlib.Path(tempfile.mkdtemp(dir=root))
        self.environment = {
            "PATH": os.environ["PATH"], "HOME": str(self.home), "XDG_STATE_HOME": str(self.home), "LANG": "C.UTF-8",
        }
        ORIGIN.rest()
        ORIGIN.reset()

    def url(self, path):
        return f"http://127.0.0.1:{self.port}/{path}"

    def command(self, arguments):
        quiet = {
            "haul": ["get"], "aria2": ["-q", "--no-conf"], "wget2": ["-q", "--no-robots"], "curl": ["-sS", "-f"],
        }[self.tool]
        # A verb of Haul's own, where `haul get` is not meant.
        if self.tool == "haul" and arguments and arguments[0] in ("call", "put"):
            quiet = []
        return [self.program, *quiet, *arguments]

    def start(self, *arguments):
        return subprocess.Popen(
            self.command(arguments), cwd=self.directory, env=self.environment, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT)

    def run(self, *arguments, seconds=25):
        process = self.start(*arguments)
        try:
            self.output = process.communicate(timeout=seconds)[0]
        except subprocess.TimeoutExpired:
            process.kill()
            self.output = process.communicate()[0]
            return "hangs"
        return process.returncode

    def kill(self, *arguments):
        """Runs the program, and ends it by SIGKILL 1.2 s after the server has sent a third of the file."""
        process = self.start(*arguments)
        end = time.time() + 10
        while ORIGIN.sent < SIZE // 3 and time.time() < end:
            time.sleep(0.02)
        time.sleep(1.2)
        process.send_signal(signal.SIGKILL)
        process.communicate()

    def names(self):
        return sorted(name.name for name in self.directory.iterdir() if not name.name.startswith("."))

    def content(self, name):
        path = self.directory / name
        return path.read_bytes() if path.exists() else None

    def version(self, name):
        """Which version of the remote file the local file is."""
        content = self.content(name)
        if content is None:
            return "no file"
        if content in VERSIONS:
            return ("old", "new")[VERSIONS.index(content)]
        return f"wrong, {len(content)} bytes"


# One function for each row, with the options of each program as in the table. None: its manual has no such option.

def each(bench, **options):
    return options.get(bench.tool)


def row_segments(b):
    options = each(b, haul=["-x", "4"], aria2=["-x4", "-s4", "-k1M"], wget2=["--chunk-size=500K", "--max-threads=4"], curl=["-O"])
    status = b.run(*options, b.url("slow.bin"))
    return f"{ORIGIN.most} at once, {b.version('slow.bin')}, status {status}"


def row_stall(b):
    """One of the connections stops before the last 1 to 4 % of its range."""
    options = each(b, haul=["-x", "4"], aria2=["-x4", "-s4", "-k1M"], wget2=["--chunk-size=500K", "--max-threads=4"], curl=None)
    if options is None:
        return "one connection for a file"
    begun = time.time()
    status = b.run(*options, b.url("stall.bin"), seconds=100)
    return f"{time.time() - begun:.1f} s, {b.version('stall.bin')}, status {status}"


def row_files(b):
    options = each(b, haul=["-j", "4", "-x1"], aria2=["-j4", "-s1", "-Z"], wget2=["--max-threads=4"], curl=["-Z", "--remote-name-all"])
    status = b.run(*options, *[b.url(f"slow{n}.bin") for n in range(4)])
    return f"{ORIGIN.most} at once, {len(b.names())} files, status {status}"


def continuing(b):
    return each(b, haul=["-x1"], aria2=["-s1", "-c", "--auto-save-interval=1", "--file-allocation=none"], wget2=["-c"], curl=["-O", "-C", "-"])


def row_kill_continues(b):
    b.kill(*continuing(b), b.url("slow.bin"))
    ORIGIN.requests.clear()
    before = ORIGIN.sent
    status = b.run(*continuing(b), b.url("slow.bin"))
    ranges = [value for value in ORIGIN.seen("range")]
    return f"{b.version('slow.bin')}, {'range asked' if ranges else 'all fetched again'}, {(ORIGIN.sent - before) // 1000} KB, status {status}"


def row_kill_changed(b):
    b.kill(*continuing(b), b.url("slow.bin"))
    ORIGIN.version = 1
    status = b.run(*continuing(b), b.url("slow.bin"))
    return f"{b.version('slow.bin')}, status {status}"


def row_kill_name(b):
    b.kill(*continuing(b), b.url("slow.bin"))
    return ("unfinished under the final name" if "slow.bin" in b.names() else "no final name") + f": {b.names()}"


def row_name_after_error(b):
    options = each(b, haul=["--checksum", "sha256:" + "0" * 64], aria2=["--checksum=sha-256=" + "0" * 64], wget2=None, curl=None)
    if options is None:
        return "no option"
    status = b.run(*options, b.url("f.bin"))
    return f"status {status}, left: {b.names()}"


def row_synced(b):
    if not shutil.which("strace"):
        return "not run: no strace"
    options = each(b, haul=[], aria2=[], wget2=["--fsync-policy=on"], curl=["-O"])
    log = b.home / "strace"
    command = ["strace", "-f", "-qq", "-o", str(log), "-e", "trace=fsync,fdatasync,syncfs,sync_file_range"] + b.command([*options, b.url("f.bin")])
    subprocess.run(command, cwd=b.directory, env=b.environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=30)
    return f"{sum('sync' in line for line in log.read_text().splitlines())} calls"


def row_list(b):
    (b.home / "list").write_text(b.url("a.bin") + "\n" + b.url("b.bin") + "\n")
    (b.home / "config").write_text(f'remote-name-all\nurl = "{b.url("a.bin")}"\nurl = "{b.url("b.bin")}"\n')
    options = each(b, haul=["-i"], aria2=["-i"], wget2=["-i"], curl=["-K"])
    status = b.run(*options, str(b.home / ("config" if b.tool == "curl" else "list")))
    return f"{b.names()}, status {status}"


def row_places(b):
    options = each(b, haul=["-d", "d/e", "-o", "n"], aria2=["-d", "d/e", "-o", "n"], wget2=["-P", "d/e", "-O", "n"], curl=["--create-dirs", "--output-dir", "d/e", "-o", "n"])
    status = b.run(*options, b.url("f.bin"))
    found = [str(path.relative_to(b.directory)) for path in b.directory.rglob("n")]
    return f"{found}, status {status}"


def row_stdout(b):
    options = each(b, haul=["-o", "-"], aria2=["-o", "-"], wget2=["-O", "-"], curl=[])
    status = b.run(*options, b.url("f.bin"))
    return f"{'whole' if VERSIONS[0] in (b.output or b'') else 'nothing'} on standard output, files {b.names()}, status {status}"


def row_headers(b):
    options = each(b, haul=["-H", "X-One: 1", "-A", "me"], aria2=["--header=X-One: 1", "-Ume"], wget2=["--header=X-One: 1", "-Ume"], curl=["-O", "-H", "X-One: 1", "-A", "me"])
    b.run(*options, b.url("f.bin"))
    return f"{ORIGIN.seen('x-one')[:1]} {ORIGIN.seen('user-agent')[:1]}"


def login(b):
    return each(b, haul=["-u", "u:p"], aria2=["--http-user=u", "--http-passwd=p"], wget2=["--user=u", "--password=p"], curl=["-O", "--anyauth", "-u", "u:p"])


def row_basic(b):
    return f"{b.run(*login(b), b.url('basic.bin'))}, {b.version('basic.bin')}"


def row_digest_login(b):
    return f"{b.run(*login(b), b.url('digest.bin'))}, {b.version('digest.bin')}"


def row_ntlm_login(b):
    options = ["-O", "--ntlm", "-u", "u:p"] if b.tool == "curl" else login(b)
    return f"{b.run(*options, b.url('ntlm.bin'))}, {b.version('ntlm.bin')}"


def row_http3(b):
    """There is no HTTP/3 server here. The row shows whether the installed program accepts the option."""
    return f"--http3: status {b.run('--http3', b.url('f.bin'))}, {b.names()}"


def row_bearer(b):
    options = each(b, haul=["--bearer", "token"], aria2=["--header=Authorization: Bearer token"], wget2=["--header=Authorization: Bearer token"], curl=["-O", "--oauth2-bearer", "token"])
    return f"{b.run(*options, b.url('bearer.bin'))}, {b.version('bearer.bin')}"


def row_netrc(b):
    netrc = b.home / ".netrc"
    netrc.write_text("machine 127.0.0.1 login u password p\n")
    netrc.chmod(0o600)
    results = []
    for options in each(b, haul=[[], ["--netrc"]], aria2=[[]], wget2=[[]], curl=[["-O"], ["-O", "-n"]]):
        status = b.run(*options, b.url("basic.bin"))
        results.append(f"{' '.join(options) or 'by default'}: {status}")
    return ", ".join(results)


def row_cookies(b):
    jar = b.home / "jar"
    jar.write_text("# Netscape HTTP Cookie File\n127.0.0.1\tFALSE\t/\tFALSE\t4102444800\ta\tb\n")
    options = each(b, haul=["-b"], aria2=["--load-cookies"], wget2=["--load-cookies"], curl=["-O", "-b"])
    option = [options[-1] + "=" + str(jar)] if b.tool in ("aria2", "wget2") else [*options, str(jar)]
    return f"{b.run(*option, b.url('cookie.bin'))}, {b.version('cookie.bin')}"


def row_cookies_saved(b):
    jar = b.home / "jar"
    options = each(b, haul=["--save-cookies", str(jar)], aria2=[f"--save-cookies={jar}"], wget2=[f"--save-cookies={jar}"], curl=["-O", "-c", str(jar)])
    if options is None:
        return "no option"
    b.run(*options, b.url("setcookie.bin"))
    return "saved" if jar.exists() and "kept" in jar.read_text() else "not saved"


def row_server_digest(b):
    options = each(b, haul=[], aria2=[], wget2=[], curl=["-O"])
    status = b.run(*options, b.url("wrongdigest.bin"))
    return f"status {status}, {b.names()}"


def row_checksum_list(b):
    (b.home / "SUMS").write_text("0" * 64 + "  f.bin\n")
    if b.tool != "haul":
        return "no option"
    return f"status {b.run('--checksum-file', str(b.home / 'SUMS'), b.url('f.bin'))}, {b.names()}"


def row_metalink(b):
    (b.directory / "list.meta4").write_bytes(metalink(b.port))
    options = each(b, haul=["-M", "list.meta4"], aria2=["-M", "list.meta4"], wget2=["--metalink", "--input-file=list.meta4"], curl=["--metalink", "file://" + str(b.directory / "list.meta4")])
    status = b.run(*options)
    return f"{b.version('meta.bin')}, status {status}"


def row_metalink_url(b):
    options = each(b, haul=["-M"], aria2=[], wget2=["--metalink"], curl=["-O"])
    status = b.run(*options, b.url("list.meta4"))
    return f"meta.bin: {b.version('meta.bin')}, status {status}"


def row_metalink_type(b):
    """A redirect to a Metalink that only its Content-Type shows."""
    options = each(b, haul=[], aria2=[], wget2=["--metalink"], curl=["-O", "-L"])
    status = b.run(*options, b.url("release"))
    return f"meta.bin: {b.version('meta.bin')}, {b.names()}, status {status}"


def row_metalink_plain(b):
    """A Metalink without a mirror that fails."""
    (b.directory / "list.meta4").write_bytes(metalink(b.port).replace(b"absent.bin", b"g.bin"))
    options = each(b, haul=["-M", "list.meta4"], aria2=["-M", "list.meta4"], wget2=["--force-metalink", "--input-file=list.meta4"], curl=["-O", "file://" + str(b.directory / "list.meta4")])
    status = b.run(*options)
    return f"{b.version('meta.bin')}, status {status}"


def row_in_the_way(b):
    (b.directory / "f.bin").write_text("another")
    options = each(b, haul=[], aria2=[], wget2=[], curl=["-O"])
    status = b.run(*options, b.url("f.bin"))
    kept = "kept" if b.content("f.bin") == b"another" else "lost"
    return f"{kept}, {b.names()}, status {status}"


def row_again(b):
    options = each(b, haul=[], aria2=[], wget2=[], curl=["-O"])
    b.run(*options, b.url("f.bin"))
    before = ORIGIN.sent
    status = b.run(*options, b.url("f.bin"))
    time.sleep(0.3)
    return f"{(ORIGIN.sent - before) // 1000} KB more, {b.names()}, status {status}"


def row_newer(b):
    options = each(b, haul=["-N"], aria2=["--conditional-get=true", "--allow-overwrite=true"], wget2=["-N"], curl=["-O", "-R", "-z", "f.bin"])
    first = [option for option in options if option not in ("-z", "f.bin")]
    b.run(*first, b.url("f.bin"))
    before = ORIGIN.sent
    status = b.run(*options, b.url("f.bin"))
    same = f"unchanged: {(ORIGIN.sent - before) // 1000} KB"
    os.utime(b.directory / "f.bin", (0, 0))
    ORIGIN.version = 1
    status = b.run(*options, b.url("f.bin"))
    return f"{same}; newer: {b.version('f.bin')}, status {status}"


def row_rate(b):
    options = each(b, haul=["--limit-rate", "400k"], aria2=["--max-overall-download-limit=400k"], wget2=["--limit-rate=400k"], curl=["-O", "--limit-rate", "400k"])
    begun = time.time()
    b.run(*options, b.url("f.bin"))
    return f"{time.time() - begun:.1f} s for 2 MB at 400 KiB/s: 4.9"


def row_retries(b):
    options = each(b, haul=[], aria2=["--retry-wait=1"], wget2=["--tries=3", "--waitretry=1"], curl=["-O", "--retry", "3"])
    bare = each(b, haul=[], aria2=[], wget2=[], curl=["-O"])
    first = b.run(*bare, b.url("trouble1.bin"))
    second = b.run(*options, b.url("trouble2.bin"))
    return f"without options: {b.version('trouble1.bin')}, status {first}; with: {b.version('trouble2.bin')}, status {second}"


def row_unreachable(b):
    options = each(b, haul=[], aria2=[], wget2=[], curl=["-O"])
    begun = time.time()
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        status = b.run(*options, f"http://127.0.0.1:{closed.getsockname()[1]}/x", seconds=60)
    return f"{time.time() - begun:.1f} s, status {status}"


def row_proxy(b):
    options = each(b, haul=[], aria2=[], wget2=[], curl=["-O"])
    b.environment["http_proxy"] = f"http://127.0.0.1:{b.port}"
    status = b.run(*options, "http://nowhere.invalid/f.bin")
    return f"the environment's proxy: status {status}, {b.version('f.bin')}"


def row_tls(b):
    url = f"https://127.0.0.1:{b.tls}/f.bin"
    bare = each(b, haul=[], aria2=[], wget2=[], curl=["-O"])
    skip = each(b, haul=["-k"], aria2=["--check-certificate=false"], wget2=["--no-check-certificate"], curl=["-O", "-k"])
    trust = each(b, haul=["--ca", b.certificate], aria2=["--ca-certificate=" + b.certificate], wget2=["--ca-certificate=" + b.certificate], curl=["-O", "--cacert", b.certificate])
    return f"unknown authority: {b.run(*bare, url)}; skipped: {b.run(*skip, url)}; trusted: {b.run(*trust, url)}, {b.version('f.bin')}"


def row_pin(b):
    """A pinned key makes a certificate good that no known authority has signed, and another key makes none good."""
    url = f"https://127.0.0.1:{b.tls}/f.bin"
    key = subprocess.run(["openssl", "x509", "-in", b.certificate, "-pubkey", "-noout"], check=True, capture_output=True).stdout
    der = subprocess.run(["openssl", "pkey", "-pubin", "-outform", "DER"], input=key, check=True, capture_output=True).stdout
    right, wrong = (base64.b64encode(hashlib.sha256(bytes).digest()).decode() for bytes in (der, b""))
    def options(pin):
        return each(b, haul=["--pin", "sha256//" + pin], aria2=None, wget2=None, curl=["-O", "-k", "--pinnedpubkey", "sha256//" + pin])
    if options(right) is None:
        return "no option"
    return f"another key: {b.run(*options(wrong), url)}; its key: {b.run(*options(right), url)}, {b.version('f.bin')}"


def row_recursive(b):
    options = each(b, haul=None, aria2=None, wget2=["-r", "-nd"], curl=None)
    if options is None:
        return "no option"
    b.run(*options, b.url("page.html"))
    return f"{b.names()}"


def row_post(b):
    options = each(b, haul=["call", "-o", "f", "-d", "x=1", b.url("f.bin")], aria2=None, wget2=["--post-data=x=1", b.url("f.bin")], curl=["-O", "-d", "x=1", b.url("f.bin")])
    if options is None:
        return "no option"
    b.run(*options, seconds=5)
    return f"{[command for command, _, _ in ORIGIN.requests][:1]}"


def row_outputs(b):
    """Several URLs, each with a name of its own."""
    options = each(b, haul=["-o", "one", b.url("a.bin"), "-o", "two", b.url("b.bin")], aria2=None, wget2=None,
                   curl=["-o", "one", b.url("a.bin"), "-o", "two", b.url("b.bin")])
    return "no option" if options is None else f"status {b.run(*options)}, {b.names()}"


def row_patterns(b):
    options = each(b, haul=[], aria2=["-P", "-Z"], wget2=[], curl=["-O"])
    return f"status {b.run(*options, b.url('once[1-3].bin'))}, {b.names()}"


def row_mirrors(b):
    """Two URLs of one file as arguments, of which the first answers 404."""
    urls = [b.url("absent.bin"), b.url("f.bin")]
    options = each(b, haul=[urls[0], "--mirror", urls[1]], aria2=urls, wget2=None, curl=None)
    return "no option" if options is None else f"status {b.run(*options)}, {[b.version(name) for name in b.names()]}"


def row_redirect_name(b):
    options = each(b, haul=[], aria2=[], wget2=["--trust-server-names"], curl=["-O", "-L"])
    bare = each(b, haul=[], aria2=[], wget2=[], curl=["-O", "-L"])
    b.run(*bare, b.url("latest"))
    first = b.names()
    b.run(*options, b.url("latest"))
    return f"by default {first}, with an option {sorted(set(b.names()) - set(first)) or 'the same'}"


def row_given_name(b):
    options = each(b, haul=[], aria2=[], wget2=["--content-disposition"], curl=["-O", "-J"])
    bare = each(b, haul=[], aria2=[], wget2=[], curl=["-O"])
    b.run(*bare, b.url("named"))
    first = b.names()
    b.run(*options, b.url("named"))
    return f"by default {first}, with an option {sorted(set(b.names()) - set(first)) or 'the same'}"


def row_one_name(b):
    """Two URLs of one command whose files have one name."""
    options = each(b, haul=[], aria2=["-Z"], wget2=[], curl=["--remote-name-all"])
    status = b.run(*options, b.url("once.bin?id=1"), b.url("once.bin?id=2"))
    return f"status {status}, {b.names()}"


def row_max_time(b):
    options = each(b, haul=["-m", "1"], aria2=["--stop=1"], wget2=None, curl=["-O", "-m", "1"])
    if options is None:
        return "no option"
    begun = time.time()
    status = b.run(*options, b.url("slow.bin"))
    return f"{time.time() - begun:.1f} s, status {status}, left: {b.names()}"


def row_min_speed(b):
    """The origin gives 20 kB a second."""
    options = each(b, haul=["-x1", "--min-speed", "1M"], aria2=["--lowest-speed-limit=1M"], wget2=None,
                   curl=["-O", "-Y", "1000000", "-y", "2"])
    if options is None:
        return "no option"
    begun = time.time()
    status = b.run(*options, b.url("crawl.bin"), seconds=60)
    return f"{time.time() - begun:.1f} s, status {status}"


def row_families(b):
    options = each(b, haul=["-6"], aria2=None, wget2=["-6", "--tries=1"], curl=["-O", "-6"])
    return "no option" if options is None else f"an IPv4 address with -6: status {b.run(*options, b.url('f.bin'), seconds=5)}, {b.version('f.bin')}"


def row_resolve(b):
    options = each(b, haul=["--resolve"], aria2=None, wget2=None, curl=["-O", "--resolve"])
    if options is None:
        return "no option"
    return f"status {b.run(*options, f'some.invalid:{b.port}:127.0.0.1', f'http://some.invalid:{b.port}/f.bin')}, {b.version('f.bin')}"


def row_unix_socket(b):
    path = str(b.home / "socket")
    server = UnixServer(path, Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    options = each(b, haul=["--unix-socket", path], aria2=None, wget2=None, curl=["-O", "--unix-socket", path])
    result = "no option" if options is None else f"status {b.run(*options, 'http://localhost/f.bin')}, {b.version('f.bin')}"
    server.shutdown()
    server.server_close()
    return result


def row_defaults(b):
    """A header from the file of defaults."""
    name, text = each(b, haul=(".config/haul/get.conf", "header = X-Mine: 1\n"), aria2=(".aria2/aria2.conf", "header=X-Mine: 1\n"),
                      wget2=(".wget2rc", "header = X-Mine: 1\n"), curl=(".curlrc", 'header = "X-Mine: 1"\n'))
    (b.home / name).parent.mkdir(parents=True, exist_ok=True)
    (b.home / name).write_text(text)
    command = {"haul": ["get"], "aria2": ["-q"], "wget2": ["-q"], "curl": ["-s", "-O"]}[b.tool]
    subprocess.run([b.program, *command, b.url("f.bin")], cwd=b.directory, env=b.environment, stdout=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL, timeout=30)
    return f"sent: {ORIGIN.seen('x-mine')[:1]}"


def row_hook(b):
    script = b.home / "hook"
    script.write_text(f'#!/bin/sh\ncat >/dev/null </dev/null; echo "$@" >>{b.home}/called\n')
    script.chmod(0o755)
    options = each(b, haul=["--on-complete", f"{script} x"], aria2=[f"--on-download-complete={script}"], wget2=None, curl=None)
    if options is None:
        return "no option"
    status = b.run(*options, b.url("f.bin"))
    return f"status {status}, {'called' if (b.home / 'called').exists() else 'not called'}"


def row_events(b):
    options = each(b, haul=["--json"], aria2=None, wget2=["--stats-site=csv:stats"], curl=["-O", "-w", "%{json}"])
    if options is None:
        return "no option"
    status = b.run(*options, b.url("f.bin"))
    text = b.content("stats") or b.output or b""
    return f"status {status}, {len(text.splitlines())} lines, the last one begins with {(text.splitlines() or [b''])[-1][:40]}"


def row_write_out(b):
    options = each(b, haul=["-q", "-w"], aria2=None, wget2=None, curl=["-O", "-w"])
    if options is None:
        return "no option"
    status = b.run(*options, "%{http_code} %{size_download}", b.url("f.bin"))
    return f"status {status}, {(b.output or b'').decode()!r}"


def row_error_body(b):
    # curl's -f, which the others have here, hides it.
    options = each(b, haul=["call"], aria2=None, wget2=["--content-on-error", "-O", "-"], curl=["--no-fail"])
    if options is None:
        return "no option"
    status = b.run(*options, b.url("error"))
    return f"status {status}, {'printed' if b'why it failed' in (b.output or b'') else 'not printed'}"


def row_head(b):
    options = each(b, haul=["call", "-I"], aria2=["--dry-run=true"], wget2=["--spider", "-S"], curl=["-I"])
    status = b.run(*options, b.url("f.bin"))
    kinds = sorted({command for command, _, _ in ORIGIN.requests})
    return f"status {status}, asked by {kinds}, {'shown' if b'ETag' in (b.output or b'') else 'nothing shown'}"


def row_range(b):
    options = each(b, haul=["call", "-o", "part", "-r", "0-99"], aria2=None, wget2=["-O", "part", "--header=Range: bytes=0-99"],
                   curl=["-o", "part", "-r", "0-99"])
    if options is None:
        return "no option"
    return f"status {b.run(*options, b.url('f.bin'))}, {len(b.content('part') or b'')} bytes"


def row_compressed(b):
    options = each(b, haul=["--compressed"], aria2=["--http-accept-gzip=true"], wget2=[], curl=["-O", "--compressed"])
    status = b.run(*options, b.url("coded"))
    asked = [value for value in ORIGIN.seen("accept-encoding") if "gzip" in value]
    return f"status {status}, gzip {'asked for' if asked else 'not asked for'}, {len(b.content('coded') or b'')} bytes"


def row_upload(b):
    """From a pipe."""
    options = each(b, haul=["put", "-"], aria2=None, wget2=["--method=PUT", "--body-file=/dev/stdin"], curl=["-T", "-"])
    if options is None:
        return "no option"
    process = subprocess.run(b.command([*options, b.url("up")]), cwd=b.directory, env=b.environment, input=bytes(100_000),
                             stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=30)
    return f"status {process.returncode}, {ORIGIN.received} bytes arrived"


def row_timeout(b):
    """A server that does not answer."""
    options = each(b, haul=["--timeout", "1", "--retries", "0"], aria2=["-t1", "-m1"], wget2=["-T1", "--tries=1"], curl=["-O", "-m1"])
    begun = time.time()
    status = b.run(*options, b.url("hang"))
    return f"{time.time() - begun:.1f} s, status {status}"


ROWS = {name.removeprefix("row_"): function for name, function in list(globals().items()) if name.startswith("row_")}


def version(tool, program):
    text = subprocess.run([program, "--version"], capture_output=True, text=True).stdout
    return text.splitlines()[0] if text else "?"


def main():
    haul, wanted = os.path.abspath(sys.argv[1]), sys.argv[2:]
    programs = {"haul": haul, "aria2": shutil.which("aria2c"), "wget2": shutil.which("wget2"), "curl": shutil.which("curl")}
    for tool in TOOLS:
        print(f"{tool}: {version(tool, programs[tool]) if programs[tool] else 'is not installed'}")
    root = tempfile.mkdtemp(prefix="haul-peers-")
    plain, secure = Server(("127.0.0.1", 0), Handler), Server(("127.0.0.1", 0), Handler)
    certificate = os.path.join(root, "certificate.pem")
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", certificate + ".key", "-out", certificate,
         "-days", "2", "-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, certificate + ".key")
    secure.socket = context.wrap_socket(secure.socket, server_side=True, do_handshake_on_connect=False)
    for server in (plain, secure):
        threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        for name, row in ROWS.items():
            if wanted and not any(name.startswith(word) for word in wanted):
                continue
            print(f"\n{name}")
            for tool in TOOLS:
                if not programs[tool]:
                    continue
                bench = Bench(tool, programs[tool], root, plain.server_port)
                bench.tls, bench.certificate = secure.server_port, certificate
                print(f"    {tool:6} {row(bench)}", flush=True)
    finally:
        plain.shutdown()
        secure.shutdown()
        shutil.rmtree(root)


if __name__ == "__main__":
    main()
