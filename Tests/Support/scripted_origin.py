"""An HTTP server on a loopback port for the scripts that test workers from outside. Its handler says what it serves."""
import http.server
import threading


class Origin(http.server.ThreadingHTTPServer):
    """`gate`: a handler may hold its answer until this is set."""

    daemon_threads = True

    def __init__(self, handler):
        self.gate = threading.Event()
        super().__init__(("127.0.0.1", 0), handler)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def handle_error(self, request, client_address):
        """A worker that is killed breaks its connections."""

    def url(self, path):
        return f"http://127.0.0.1:{self.server_address[1]}{path}"


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def body(self):
        return self.rfile.read(int(self.headers["Content-Length"]))

    def answer(self, status, body=b"", **headers):
        self.begin(status, len(body), **headers)
        self.wfile.write(body)

    def begin(self, status, length, **headers):
        """Sends the head of a response."""
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(length))
        self.end_headers()

    def send(self, body, held_after=None):
        """Sends a body, and waits for the gate after so many bytes."""
        try:
            if held_after is not None and not self.server.gate.is_set():
                self.wfile.write(body[:held_after])
                self.wfile.flush()
                self.server.gate.wait(60)
                body = body[held_after:]
            self.wfile.write(body)
        except OSError:
            pass  # The worker was killed.
