"""An origin for the browser's tests: files of any size at any rate, with ranges, and failures."""

import hashlib
import http.server
import json
import re
import threading
import time
import urllib.parse

HOSTILE = '"><img src=x onerror=window.hacked=1><script>window.hacked=1</script>'


# Paths below /second that have been asked for: each is found from the second request on.
ASKED = set()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_GET(self):
        parts = urllib.parse.urlsplit(self.path)
        query = urllib.parse.parse_qs(parts.query)
        if parts.path.startswith("/missing"):
            return self.fail(404)
        if parts.path.startswith("/second") and self.path not in ASKED:
            ASKED.add(self.path)
            return self.fail(404)
        if parts.path.startswith("/bytes"):
            return self.respond(b"\x00\xff\x01")
        if parts.path.startswith("/echo"):
            return self.echo()
        size = int(query.get("size", ["100000"])[0])
        rate = int(query.get("rate", ["0"])[0])
        first, last = 0, size
        wanted = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
        if wanted:
            first = int(wanted[1])
            last = min(size, int(wanted[2]) + 1) if wanted[2] else size
            if first >= size:
                return self.fail(416)
        self.send_response(206 if wanted else 200)
        if wanted:
            self.send_header("Content-Range", f"bytes {first}-{last - 1}/{size}")
        self.send_header("Content-Length", str(last - first))
        self.send_header("Accept-Ranges", "bytes")
        self.send_header("ETag", '"%s"' % hashlib.sha256(self.path.encode()).hexdigest()[:16])
        if "name" in query:
            self.send_header("Content-Disposition", "attachment; filename*=UTF-8''" + urllib.parse.quote(query["name"][0]))
        self.end_headers()
        piece = 16384
        try:
            while first < last:
                count = min(piece, last - first)
                self.wfile.write(b"h" * count)
                first += count
                if rate:
                    time.sleep(count / rate)
        except OSError:
            pass

    def do_PUT(self):
        self.echo()

    def echo(self):
        """Responds with the request as JSON, and with a header field as a hostile server would send it."""
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        response = json.dumps({"method": self.command, "path": self.path, "body": body.decode()}).encode()
        self.respond(response, [("Content-Type", "application/json"), ("X-Hostile", HOSTILE)])

    def respond(self, body, fields=()):
        self.send_response(200)
        for name, value in fields:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def fail(self, status):
        self.send_response(status)
        self.send_header("Content-Length", "0")
        self.end_headers()


def serve():
    """Starts the origin, and returns its address."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{server.server_address[1]}"
