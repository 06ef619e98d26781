"""A proxy between the workers and the object store. It forwards everything, except for the faults that it is asked to
inject.

  gateway.py HOST:PORT PORT ADDRESS    the store, and the proxy's own port and address; prints the port once it listens

A request with a session token is checked for the token and for its time. Then the proxy signs the request again, because
the store does not support tokens. So credentials can expire, and the store's clock can be wrong. All other requests
reach the store unchanged.

`/-/credentials` is a container's credentials service. `/-/spoil/KIND` injects a fault into the next requests, and
returns how many it has affected, after some seconds at most. `/-/requests` counts the requests, and `/-/refused` those
that the store refused with 403, by kind. `/-/named/KEY` lists the requests for a finished object, and `/-/slowest` names
the request that the store took longest for. `/-/late/SECONDS` is added to the Date of all responses.
"""
import calendar
import email.utils
import http.client
import json
import random
import re
import socket
import struct
import sys
import threading
import time
import urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from s3 import KEY, SECRET, amazon_time, authorization

STEP, PATIENCE, TOLERANCE = 64 << 10, 5, 900
lock = threading.Condition()


class State:
    token = 1
    late = 0
    offset = 0
    # The faults that wait for requests, and how many requests each one has affected.
    armed, met = {}, {}
    requests, refused = {}, {}
    # The requests for finished objects, by path: when each one came, what it was, and what came of it.
    named = {}
    # The request that the store took longest for: seconds, kind and path.
    slowest = (0, "", "")


class Cut(Exception):
    """The connection ends here."""


def take(*kinds):
    """Returns the first of these faults that waits for a request, and consumes it. None if none waits."""
    with lock:
        for kind in kinds:
            left = State.armed.get(kind, 0)
            if left > 0:
                State.armed[kind] = left - 1
                note(kind)
                return kind
    return None


def note(kind):
    State.met[kind] = State.met.get(kind, 0) + 1
    lock.notify_all()


def spoil(kind):
    """Injects a fault, and returns how many requests it has affected."""
    count = {"500": random.choice([1, 1, 2, 5]), "503": 1 << 30}.get(kind, 1)
    with lock:
        State.met[kind] = 0
        if kind == "expired":
            State.token += 1
        elif kind == "clock":
            State.offset = random.choice([960, -960])
        else:
            State.armed[kind] = count
        if kind in ("503", "clock"):
            # These last for a time.
            lock.wait_for(lambda: False, random.uniform(2, 6))
        else:
            lock.wait_for(lambda: State.met[kind] >= count, PATIENCE)
        State.armed[kind] = 0
        if kind == "clock":
            State.offset = 0
        return State.met[kind]


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, *_):
        pass

    def setup(self):
        super().setup()
        self.store = None

    def finish(self):
        if self.store:
            self.store.close()
        super().finish()

    def handle(self):
        try:
            super().handle()
        except (Cut, OSError, http.client.HTTPException):
            # End with a RST, as the connections of a killed process do.
            try:
                self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            except OSError:
                pass
            self.close_connection = True

    def do_GET(self):
        path, _, query = self.path.partition("?")
        self.query = dict(urllib.parse.parse_qsl(query, keep_blank_values=True))
        if path.startswith("/-/"):
            return self.control(path[3:])
        self.left = int(self.headers.get("Content-Length") or 0)
        is_complete = self.command == "POST" and "uploadId=" in query
        is_part = self.command == "PUT" and "partNumber=" in query
        words = [name for name in ("uploads", "partNumber", "uploadId", "list-type") if name + "=" in query]
        with lock:
            self.kind = " ".join([self.command, *words[:1]])
            State.requests[self.kind] = State.requests.get(self.kind, 0) + 1
        self.entry = None
        if not is_part and "/.haul/" not in path and self.command != "GET":
            names = ("if-match", "if-none-match", "x-amz-meta-haul-generation")
            details = [f"{name} {self.headers[name]}" for name in names if self.headers.get(name)]
            self.entry = [f"{time.time():.3f}", self.kind, *details]
            with lock:
                State.named.setdefault(path, []).append(self.entry)
        refusal = self.refusal()
        if refusal:
            return self.refuse(*refusal)
        if take("503"):
            return self.refuse(503, "SlowDown")
        fault = take(*(["cut Complete's answer", "error in a 200", "404 after Complete"] if is_complete else []),
                     *(["cut a part"] if is_part else []), "500")
        self.ask(path, query, cut_at=self.left // 2 if fault == "cut a part" else None)
        if fault == "500" and random.random() < 0.5 or fault == "error in a 200" and random.random() < 0.5:
            # Fail before the store has done anything.
            self.store.close()
            self.store = None
            self.drain()
            return self.refuse(500 if fault == "500" else 200, "InternalError")
        self.send_body()
        answer = self.get_answer(path)
        if self.entry:
            mark, etag = (answer.getheader(name) for name in ("x-amz-meta-haul-generation", "ETag"))
            self.entry.append(f"→ {answer.status} {mark or ''} {etag or ''} at {time.time():.3f}")
        if answer.status == 403:
            with lock:
                State.refused[self.kind] = State.refused.get(self.kind, 0) + 1
        if fault in ("500", "error in a 200", "404 after Complete"):
            answer.read()
            return self.refuse(*{"500": (500, "InternalError"), "error in a 200": (200, "InternalError"),
                                 "404 after Complete": (404, "NoSuchUpload")}[fault])
        self.pass_on(answer, is_cut=fault == "cut Complete's answer")

    do_HEAD = do_PUT = do_POST = do_DELETE = do_GET

    # What a store with tokens does.

    @property
    def token(self):
        return self.headers.get("x-amz-security-token") or self.query.get("X-Amz-Security-Token")

    def refusal(self):
        if not self.token:
            return None
        with lock:
            if self.token != f"token-{State.token}":
                note("expired")
                return 400, "ExpiredToken"
            date = self.headers.get("x-amz-date") or self.query.get("X-Amz-Date", "")
            at = calendar.timegm(time.strptime(date, "%Y%m%dT%H%M%SZ"))
            late = time.time() + State.offset - at
            if late > float(self.query.get("X-Amz-Expires", TOLERANCE)) or late < -TOLERANCE:
                note("clock")
                return 403, "RequestTimeTooSkewed"
        return None

    def ask(self, path, query, cut_at):
        """Sends the head, and then half of the body if the body is to be cut there."""
        if self.store is None:
            self.store = http.client.HTTPConnection(sys.argv[1], timeout=90)
        headers = {name.lower(): value for name, value in self.headers.items()}
        headers.pop("expect", None)
        if headers.pop("x-amz-security-token", None):
            names = re.search("SignedHeaders=([^,]*)", headers["authorization"])[1].split(";")
            names.remove("x-amz-security-token")
            headers["x-amz-date"] = amazon_time(time.time())
            headers["authorization"] = authorization(self.command, path, query, headers, names)
        target = self.path
        if "X-Amz-Security-Token" in self.query:
            # Signed in the query. The store gets a signature in a field.
            query = "&".join(each for each in query.split("&") if not each.startswith("X-Amz-"))
            target = path + ("?" + query if query else "")
            names = self.query["X-Amz-SignedHeaders"].split(";") + ["x-amz-content-sha256", "x-amz-date"]
            headers["x-amz-content-sha256"], headers["x-amz-date"] = "UNSIGNED-PAYLOAD", amazon_time(time.time())
            headers["authorization"] = authorization(self.command, path, query, headers, sorted(names))
        self.store.putrequest(self.command, target, skip_host=True, skip_accept_encoding=True)
        for name, value in headers.items():
            self.store.putheader(name, value)
        self.store.endheaders()
        if cut_at is not None:
            self.send_body(cut_at)
            raise Cut

    def send_body(self, until=None):
        left = self.left if until is None else until
        while left:
            data = self.rfile.read(min(left, STEP))
            if not data:
                raise Cut
            self.store.send(data)
            left -= len(data)
            self.left -= len(data)

    def get_answer(self, path):
        began = time.monotonic()
        try:
            return self.store.getresponse()
        finally:
            with lock:
                State.slowest = max(State.slowest, (time.monotonic() - began, self.kind, path))

    def drain(self):
        while self.left:
            data = self.rfile.read(min(self.left, STEP))
            if not data:
                raise Cut
            self.left -= len(data)

    # Responses.

    def pass_on(self, answer, is_cut):
        length = answer.getheader("Content-Length")
        has_body = self.command != "HEAD" and answer.status not in (204, 304)
        body = answer.read() if has_body and length is None else None
        self.send_response_only(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in ("connection", "transfer-encoding", "keep-alive", "content-length", "date"):
                self.send_header(name, value)
        self.send_header("Date", self.date())
        if length is not None or body is not None:
            self.send_header("Content-Length", length if body is None else str(len(body)))
        if is_cut:
            if random.random() < 0.5:
                self.end_headers()
                self.wfile.write((body or answer.read())[:20])
            raise Cut
        self.end_headers()
        if body is not None:
            self.wfile.write(body)
        elif has_body:
            while data := answer.read(STEP):
                self.wfile.write(data)
        else:
            answer.read()

    def refuse(self, status, code):
        self.drain()
        if self.entry:
            self.entry.append(f"answered {status} {code}")
        text = f'<?xml version="1.0" encoding="UTF-8"?><Error><Code>{code}</Code><Message>spoiled</Message></Error>'
        self.answer(status, "application/xml", text)

    def answer(self, status, kind, text):
        self.send_response_only(status)
        self.send_header("Date", self.date())
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(text.encode())

    def date(self):
        return email.utils.formatdate(time.time() + State.late + (State.offset if self.token else 0), usegmt=True)

    def control(self, words):
        name, _, value = words.partition("/")
        value = urllib.parse.unquote(value)
        if name == "credentials":
            end = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 3600))
            return self.answer(200, "application/json", json.dumps({
                "AccessKeyId": KEY, "SecretAccessKey": SECRET, "Token": f"token-{State.token}", "Expiration": end}))
        if name in ("requests", "refused"):
            return self.answer(200, "application/json", json.dumps(getattr(State, name)))
        if name == "named":
            with lock:
                lines = [" ".join(entry) for entry in State.named.get(value, [])]
            return self.answer(200, "text/plain; charset=utf-8", "\n".join(lines))
        if name == "slowest":
            seconds, kind, path = State.slowest
            return self.answer(200, "text/plain; charset=utf-8", f"{seconds:.1f} s, {kind} {path}")
        if name == "late":
            State.late = int(value)
        self.answer(200, "text/plain", str(spoil(value) if name == "spoil" else 0))


if __name__ == "__main__":
    ThreadingHTTPServer.request_queue_size = 256
    ThreadingHTTPServer.daemon_threads = True
    server = ThreadingHTTPServer((sys.argv[3], int(sys.argv[2])), Handler)
    print(server.server_address[1], flush=True)
    server.serve_forever()
