"""The origin of a chaos run. The URL determines the file. The origin honours ranges, keeps a pace, cuts connections on
demand, and counts every byte of a body.

A file is a slice of one blob of random bytes: `/f/OFFSET/SIZE/RATE` (bytes per second, 0: unlimited). `/stats` returns
the bytes sent by path. `/read/f/…` returns for each request for that path its time, its first byte, and how many bytes
the peer has read. `/cut/N` resets N of the connections that are sending or receiving. kept.py has what the origin
receives, hooks.py the webhooks, and bucket.py the private bucket, whose objects are `/films/f/…`.
"""
import contextlib
import fcntl
import json
import mmap
import os
import random
import re
import socket
import struct
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import bucket
import hooks
import kept

BLOB = 320 << 20
SIOCOUTQ = 0x5411
lock = threading.Lock()
requests, sending = {}, set()


class Answer:
    """What was sent in response to one request, and how much of that is still in the kernel."""

    def __init__(self, first, connection):
        self.at, self.first, self.sent = time.time(), first, 0
        self.connection, self.port = connection, connection.getpeername()[1]

    def read(self, queues):
        if not self.connection:
            return self.sent
        sent = self.sent
        unsent = struct.unpack("i", fcntl.ioctl(self.connection.fileno(), SIOCOUTQ, b"\0" * 4))[0]
        return max(0, sent - unsent - queues.get(self.port, 0))


def receive_queues():
    """The unread bytes of each local socket, by its port."""
    queues = {}
    with open("/proc/net/tcp") as table:
        next(table)
        for line in table:
            words = line.split()
            queues[int(words[1].split(":")[1], 16)] = int(words[4].split(":")[1], 16)
    return queues


def make_blob(path, seed, size=BLOB):
    generator = random.Random(seed)
    with open(path, "wb") as file:
        for _ in range(size >> 20):
            file.write(generator.randbytes(1 << 20))


class Handler(kept.Taking, hooks.Receiving, BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = 0

    def log_message(self, *_):
        pass

    def setup(self):
        # Bytes that a killed worker leaves unread in the kernel count as sent, so the buffer is small.
        self.request.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 128 << 10)
        super().setup()

    def handle(self):
        try:
            super().handle()
        except OSError:
            pass

    @property
    def blob(self):
        return content

    @contextlib.contextmanager
    def taking(self):
        """Within this context the connection may be cut."""
        with lock:
            sending.add(self.connection)
        try:
            yield
        finally:
            with lock:
                sending.discard(self.connection)

    def do_GET(self):
        bucket.record_credentials(self.path, self.headers)
        if self.path.startswith("/r/"):
            return self.respond()
        if self.path == "/kept":
            return self.text(kept.all_kept())
        if self.path == "/hooks":
            return self.text(hooks.all_received())
        if self.path == "/bucket":
            return self.text(bucket.found())
        if self.path.startswith("/secrets/"):
            return self.text(bucket.set_secrets(self.path[9:]) or "set")
        if self.path == "/stats":
            return self.text(json.dumps({path: sum(each.sent for each in all) for path, all in requests.items()}))
        if self.path.startswith("/read/"):
            with lock:
                queues = receive_queues()
                return self.text(json.dumps([
                    [each.at, each.first, each.read(queues)] for each in requests.get(self.path[5:], [])]))
        cut = re.fullmatch(r"/cut/(\d+)", self.path)
        if cut:
            with lock:
                chosen = random.sample(sorted(sending, key=id), min(int(cut[1]), len(sending)))
            for connection in chosen:
                try:
                    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    connection.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass
            return self.text(str(len(chosen)))
        refusal = self.path.startswith(bucket.PREFIX) and bucket.refusal(self.command, self.path, self.headers)
        if refusal:
            return self.text(f"<Error><Code>{refusal[1]}</Code></Error>", refusal[0])
        match = re.fullmatch(r"(?:/films)?/f/(\d+)/(\d+)/(\d+)(?:\?.*)?", self.path)
        if not match:
            return self.send_error(404)
        self.file(*map(int, match.groups()))

    def file(self, offset, size, rate):
        etag = f'"{offset}-{size}"'
        if self.headers.get("If-Match", etag) != etag:
            return self.text("<Error><Code>PreconditionFailed</Code></Error>", 412)
        first, end, status = 0, size, 200
        span = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
        if span and self.headers.get("If-Range", etag) == etag:
            first, end = int(span[1]), min(int(span[2]) + 1 if span[2] else size, size)
            status = 206 if first < end else 416
        self.send_response(status)
        self.send_header("ETag", etag)
        self.send_header("Accept-Ranges", "bytes")
        if status == 416:
            self.send_header("Content-Range", f"bytes */{size}")
            end = first
        if status == 206:
            self.send_header("Content-Range", f"bytes {first}-{end - 1}/{size}")
        self.send_header("Content-Length", str(end - first))
        self.end_headers()
        answer = Answer(first, self.connection)
        with lock:
            sending.add(self.connection)
            requests.setdefault(self.path, []).append(answer)
        try:
            self.body(answer, offset + first, end - first, rate)
        except OSError:
            self.close_connection = True
        finally:
            with lock:
                sending.discard(self.connection)
                answer.connection = None

    def body(self, answer, start, count, rate):
        began, done = time.monotonic(), 0
        while done < count:
            step = min(count - done, max(1024, rate // 20) if rate else 1 << 20)
            n = os.sendfile(self.connection.fileno(), blob.fileno(), start + done, step)
            done += n
            answer.sent += n
            if rate:
                time.sleep(max(0, began + done / rate - time.monotonic()))

    def text(self, text, status=200):
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())


if __name__ == "__main__":
    blob = open(sys.argv[1], "rb")
    content = mmap.mmap(blob.fileno(), 0, access=mmap.ACCESS_READ)
    ThreadingHTTPServer.request_queue_size = 256
    server = ThreadingHTTPServer((sys.argv[2] if len(sys.argv) > 2 else "127.0.0.1", 0), Handler)
    print(server.server_address[1], flush=True)
    server.serve_forever()
