"""The servers of run.py: one origin by http, https, https with client certificates and a Unix socket, and a proxy."""

import base64
import gzip
import hashlib
import http.server
import json
import os
import random
import re
import select
import socket
import socketserver
import ssl
import subprocess
import threading
import time

FILES = {name: random.Random(name).randbytes(size) for name, size in (("small.bin", 520), ("big.bin", 3_000_000))}
DATE = "Sun, 06 Nov 1994 08:49:37 GMT"


def content(path):
    """The bytes of a path below /f/: those of FILES, else the path as a line of text."""
    return FILES.get(path.rsplit("/", 1)[-1], path.encode() + b"\n")


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def address_string(self):
        return "local"

    def log_message(self, *_):
        pass

    def reply(self, status=200, body=b"", **headers):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def body(self):
        if self.headers.get("Transfer-Encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        body = b""
        while size := int(self.rfile.readline(), 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return body

    def do_GET(self):
        state, body = self.server.state, self.body()
        path = re.sub("^http://[^/]*", "", self.path)
        with state.lock:
            state.counts[path] = number = state.counts.get(path, 0) + 1
            with open(state.log, "a") as log:
                print(self.command, self.path, self.headers.get("Range", ""), file=log)
        kind, _, rest = path.lstrip("/").partition("/")
        kind = kind.partition("?")[0]
        cookie, credentials = self.headers.get("Cookie") or "", self.headers.get("Authorization") or ""
        base = f"http://{self.headers.get('Host')}"
        if kind == "basic" and credentials != "Basic " + base64.b64encode(b"me:pw").decode():
            return self.reply(401, b"no", WWW_Authenticate='Basic realm="r"')
        if kind == "digest" and not credentials.startswith("Digest "):
            return self.reply(401, WWW_Authenticate='Digest realm="r", nonce="n", qop="auth", algorithm=SHA-256')
        if kind == "bearer" and credentials != "Bearer t0ken":
            return self.reply(401, b"no")
        if kind == "cookie" and "sid=1" not in cookie:
            return self.reply(403)
        if kind == "unavailable" and number == 1:
            return self.reply(503)
        if kind == "busy" and number == 1:
            return self.reply(429, Retry_After=rest.partition("/")[0])
        match kind:
            case "echo":
                text = {"method": self.command, "path": path, "body": body.decode("latin-1"),
                        "headers": {name.lower(): value for name, value in self.headers.items()}}
                return self.reply(body=json.dumps(text).encode(), Content_Type="application/json")
            case "login":
                return self.reply(302, Location="/cookie/home", Set_Cookie="sid=1; Path=/; Max-Age=9999")
            case "moved":
                return self.reply(302, Location="/f/" + rest)
            case "latest":
                return self.reply(302, Location="/f/prog-1.2.zip")
            case "loop":
                return self.reply(302, Location=path)
            case "disposition":
                return self.reply(body=b"named\n", Content_Disposition="attachment; filename*=UTF-8''na%C3%AFve.txt")
            case "status":
                return self.reply(int(rest), b'{"error":"no such film"}\n', Content_Type="application/json")
            case "gzip":
                if "gzip" in self.headers.get("Accept-Encoding", ""):
                    return self.reply(body=gzip.compress(b"plain\n"), Content_Encoding="gzip")
                return self.reply(body=b"plain\n")
            case "hang":
                return state.end.wait(30)
            case "form":
                return self.reply(body=body)
            case "up" if self.command in ("PUT", "POST"):
                with state.lock:
                    state.uploads[path] = body
                return self.reply(201)
            case "up":
                return self.reply(body=state.uploads[path]) if path in state.uploads else self.reply(404)
            case "absent":
                return self.reply(404, b"nothing here\n")
            case "SHA256SUMS":
                lines = [f"{hashlib.sha256(content(name)).hexdigest()}  {name}" for name in FILES]
                return self.reply(body="\n".join(lines + ["0" * 64 + "  wrong.bin", ""]).encode())
            case "release.meta4" | "typed":
                big = FILES["big.bin"]
                text = f"""<metalink xmlns="urn:ietf:params:xml:ns:metalink"><file name="disc.iso"><size>{len(big)}</size>
                    <hash type="sha-256">{hashlib.sha256(big).hexdigest()}</hash><url priority="1">{base}/absent</url>
                    <url priority="2">{base}/f/big.bin</url></file></metalink>"""
                return self.reply(body=text.encode(), Content_Type="application/metalink4+xml")
        self.file(path, kind)

    do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = do_GET

    def file(self, path, kind):
        whole = content(path.partition("?")[0])
        if "id=" in path:
            whole = path.encode() + b"\n"
        etag = '"' + hashlib.sha256(whole).hexdigest()[:8] + '"'
        first, last, span = 0, len(whole) - 1, self.headers.get("Range")
        if self.headers.get("If-None-Match") == etag or (
                "If-None-Match" not in self.headers and self.headers.get("If-Modified-Since")):
            return self.reply(304, ETag=etag)
        if span and self.headers.get("If-Range", etag) in (etag, DATE):
            start, _, end = span.removeprefix("bytes=").partition("-")
            first, last = int(start), min(int(end or last), last)
        self.send_response(206 if span else 200)
        if span:
            self.send_header("Content-Range", f"bytes {first}-{last}/{len(whole)}")
        for name, value in (("ETag", etag), ("Last-Modified", DATE), ("Accept-Ranges", "bytes"),
                            ("Content-Length", str(last + 1 - first))):
            self.send_header(name, value)
        self.end_headers()
        step = 20_000 if kind == "slow" else 1 << 20
        for position in range(first, last + 1 if self.command != "HEAD" else first, step):
            self.wfile.write(whole[position:min(position + step, last + 1)])
            if kind == "slow" and self.server.state.end.wait(0.05):
                return


class Proxy(Handler):
    """Forwards plain requests, which the origin answers here, and tunnels."""

    def do_CONNECT(self):
        with open(self.server.state.log, "a") as log:
            print("CONNECT", self.path, self.headers.get("Proxy-Authorization", ""), file=log)
        host, _, port = self.path.rpartition(":")
        with socket.create_connection((host, int(port))) as server:
            self.send_response(200)
            self.end_headers()
            ends = [self.connection, server]
            while True:
                for end in select.select(ends, [], [])[0]:
                    data = end.recv(65536)
                    if not data:
                        self.close_connection = True
                        return
                    ends[1 - ends.index(end)].sendall(data)


class Server(http.server.ThreadingHTTPServer):
    daemon_threads, request_queue_size = True, 128

    def handle_error(self, *_):
        pass


class UnixServer(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True

    def handle_error(self, *_):
        pass


class State:
    def __init__(self, log):
        self.lock, self.end, self.log, self.counts, self.uploads = threading.Lock(), threading.Event(), log, {}, {}


def make_certificates(place):
    """An authority, a certificate of the servers and one of clients."""
    def openssl(*words):
        subprocess.run(["openssl", *words], check=True, capture_output=True, cwd=place)

    key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"]
    openssl("req", "-x509", *key, "-subj", "/CN=Test authority", "-keyout", "ca.key", "-out", "ca.pem")
    for name, extension in (("server", "subjectAltName=IP:127.0.0.1,DNS:localhost"), ("client", "keyUsage=digitalSignature")):
        openssl("req", *key[:5], "-subj", f"/CN={name}", "-addext", extension, "-keyout", f"{name}.key", "-out", f"{name}.csr")
        openssl("x509", "-req", "-in", f"{name}.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial",
                "-copy_extensions", "copyall", "-days", "2", "-out", f"{name}.pem")


class Origin:
    """All servers of one task. `variables` are what its commands know of them."""

    def __init__(self, place, certificates):
        self.state, self.servers = State(os.path.join(place, "log")), []
        open(self.state.log, "w").close()

        def start(server, context=None):
            server.state = self.state
            if context:
                server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
            threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
            self.servers.append(server)
            return server

        def context(requires):
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(f"{certificates}/server.pem", f"{certificates}/server.key")
            if requires:
                context.load_verify_locations(f"{certificates}/ca.pem")
                context.verify_mode = ssl.CERT_REQUIRED
            return context

        ports = [start(Server(("127.0.0.1", 0), handler), tls).server_port for handler, tls in (
            (Handler, None), (Handler, context(False)), (Handler, context(True)), (Proxy, None))]
        start(UnixServer(os.path.join(place, "socket"), Handler))
        self.variables = {
            "B": f"http://127.0.0.1:{ports[0]}", "S": f"https://localhost:{ports[1]}", "M": f"https://localhost:{ports[2]}",
            "P": f"127.0.0.1:{ports[3]}", "PORT": str(ports[0]), "U": os.path.join(place, "socket"), "LOG": self.state.log,
        }

    def close(self):
        self.state.end.set()
        for server in self.servers:
            server.shutdown()
            server.server_close()
