"""What the origin of a chaos run receives and stores: requests, and files by PUT, in forms and by tus. Digests identify
the files.

`/r/ID/OFFSET/SIZE/MS` responds with a slice of the blob after so many milliseconds. `/u/ID/RATE…` reads a body at so
many bytes per second (0: unlimited). A PUT is a file, and a POST a form with one file. `/t/ID/RATE` makes uploads by
tus, and stores each byte as it arrives. `/kept` lists for each path the number of requests that are not safe to repeat,
the bytes of bodies, and the digest and size of each complete file.
"""
import hashlib
import json
import re
import threading
import time

lock = threading.Lock()


class Target:
    """A path, and what it has received."""

    def __init__(self):
        self.posts, self.received, self.whole = 0, 0, []


class TusFile:
    def __init__(self, target, length):
        self.target, self.length, self.count, self.digest = target, length, 0, hashlib.sha256()
        self.lock = threading.Lock()


targets, tus_files = {}, {}


def target_of(path):
    with lock:
        return targets.setdefault(path, Target())


def all_kept():
    with lock:
        return json.dumps({path: [each.posts, each.received, each.whole] for path, each in targets.items()})


class Taking:
    """A mixin of the origin's handler. The handler has `blob`, `text`, and `taking(connection)`, within which a
    connection may be cut."""

    def do_POST(self):
        if self.path.startswith("/hook/"):
            return self.receive_webhook()
        if self.path.startswith("/t/"):
            return self.make()
        target = target_of(self.path.partition("?")[0])
        # The request counts when it arrives, whatever happens to it.
        with lock:
            target.posts += 1
        return self.respond() if self.path.startswith("/r/") else self.form(target)

    def do_PUT(self):
        target, digest, count = target_of(self.path.partition("?")[0]), hashlib.sha256(), 0
        for piece in self.pieces(target):
            digest.update(piece)
            count += len(piece)
        if count == self.length:
            target.whole.append((digest.hexdigest(), count))
            self.text("kept")

    def form(self, target):
        body = b"".join(self.pieces(target))
        if len(body) != self.length:
            return
        boundary = self.headers["Content-Type"].partition("boundary=")[2].encode()
        part = body.split(b"\r\n\r\n", 1)[1]
        end = b"\r\n--" + boundary + b"--\r\n"
        if not part.endswith(end):
            return self.send_error(400)
        file = part[:-len(end)]
        target.whole.append((hashlib.sha256(file).hexdigest(), len(file)))
        self.text("kept")

    def respond(self):
        """Responds to a request. The content of its body does not matter."""
        self.rfile.read(self.length)
        offset, size, wait = map(int, self.path.partition("?")[0].split("/")[3:6])
        with self.taking():
            time.sleep(wait / 1000)
        self.send_response(200)
        self.send_header("Content-Length", str(size))
        self.end_headers()
        self.wfile.write(self.blob[offset:offset + size])

    # Bodies.

    @property
    def length(self):
        return int(self.headers.get("Content-Length") or 0)

    def pieces(self, target):
        """The body in pieces as it arrives. It has fewer bytes than announced if the connection ends."""
        rate, rest, began, done = int(re.match(r"/[ut]/[^/]+/(\d+)", self.path)[1]), self.length, time.monotonic(), 0
        with self.taking():
            while rest > 0:
                try:
                    piece = self.rfile.read(min(rest, max(1024, rate // 20) if rate else 256 << 10))
                except OSError:
                    piece = b""
                if not piece:
                    self.close_connection = True
                    return
                rest -= len(piece)
                done += len(piece)
                target.received += len(piece)
                yield piece
                if rate:
                    time.sleep(max(0, began + done / rate - time.monotonic()))

    # tus 1.0.

    def plain(self, status, **headers):
        self.send_response(status)
        for name, value in {"Tus-Resumable": "1.0.0", **headers}.items():
            self.send_header(name.replace("_", "-"), str(value))
        if status != 204:
            self.send_header("Content-Length", "0")
        self.end_headers()

    def do_OPTIONS(self):
        self.plain(204, Tus_Version="1.0.0", Tus_Extension="creation,termination")

    def make(self):
        with lock:
            path = f"{self.path}/{len(tus_files)}"
        target = target_of(self.path)
        with lock:
            tus_files[path] = TusFile(target, int(self.headers["Upload-Length"]))
        self.plain(201, Location=path)

    def do_HEAD(self):
        file = tus_files.get(self.path)
        if not file:
            return self.plain(404)
        if not file.lock.acquire(blocking=False):
            return self.plain(423)
        file.lock.release()
        self.plain(200, Upload_Offset=file.count, Upload_Length=file.length)

    def do_DELETE(self):
        self.plain(204 if tus_files.pop(self.path, None) else 404)

    def do_PATCH(self):
        file = tus_files.get(self.path)
        refusal = 404 if not file else 423 if not file.lock.acquire(blocking=False) else None
        if refusal:
            self.close_connection = True
            return self.plain(refusal)
        try:
            if int(self.headers["Upload-Offset"]) != file.count:
                self.close_connection = True
                return self.plain(409)
            for piece in self.pieces(file.target):
                file.digest.update(piece)
                file.count += len(piece)
            if file.count == file.length:
                file.target.whole.append((file.digest.hexdigest(), file.count))
        finally:
            file.lock.release()
        if not self.close_connection:
            self.plain(204, Upload_Offset=file.count)
