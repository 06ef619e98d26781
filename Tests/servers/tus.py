"""Real workers and tus servers of PyPI: uploads are paused, killed and continued by other workers. tus.sh starts this
script."""
import argparse
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "chaos"))
from processes import RedisServer, Worker  # noqa: E402
from resp import Redis  # noqa: E402
from stores import Directory  # noqa: E402

Q = "haul:{default}:"
SIZE = 12 << 20


# The servers. Each keeps its files beneath `directory`, and creates uploads at /uploads/.

def aiohttp_tus(directory, port):
    """With aiohttp's default limit of a request, 1 MiB. Larger requests get 413."""
    from pathlib import Path

    from aiohttp import web
    from aiohttp_tus import setup_tus

    app = setup_tus(web.Application(), upload_path=Path(directory), upload_url="/uploads", allow_overwrite_files=True)
    web.run_app(app, host="127.0.0.1", port=port, print=None)


def tuspyserver(directory, port):
    import uvicorn
    from fastapi import FastAPI
    from tuspyserver import create_tus_router

    app = FastAPI()
    app.include_router(create_tus_router(prefix="uploads", files_dir=directory))
    uvicorn.run(app, host="127.0.0.1", port=port, log_level="warning")


def tussi(directory, port):
    """Takes 10 MiB in one request."""
    import uvicorn
    from starlette.applications import Starlette
    from starlette.routing import Mount
    from tussi import TUSApp
    from tussi.storage import FilesystemStorage

    uploads = TUSApp(FilesystemStorage(os.path.join(directory, "partial")), os.path.join(directory, "completed"))
    uvicorn.run(Starlette(routes=[Mount("/uploads", uploads)]), host="127.0.0.1", port=port, log_level="warning")


def tuswsgi(directory, port):
    from socketserver import ThreadingMixIn
    from wsgiref.simple_server import WSGIServer, make_server

    import tuswsgi

    class Server(ThreadingMixIn, WSGIServer):
        daemon_threads = True

    def finished(environ, respond):
        """Is called once an upload is whole, and sends the response to its last PATCH."""
        respond("200 OK", [])
        return [b""]

    app = tuswsgi.TusMiddleware(finished, upload_path="/uploads", tmp_dir=directory)
    make_server("127.0.0.1", port, app, server_class=Server).serve_forever()


SERVERS = {
    "aiohttp-tus": (aiohttp_tus, "/uploads"), "tuspyserver": (tuspyserver, "/uploads/"),
    "tussi": (tussi, "/uploads/"), "tuswsgi": (tuswsgi, "/uploads")}


class Trial:
    def __init__(self, haul, name, directory):
        self.haul, self.name, self.directory, self.number, self.children = haul, name, directory, 0, []
        self.redis_server = RedisServer(directory, "redis")
        self.store = Directory(os.path.join(directory, "root"))
        self.uploads = os.path.join(directory, "uploads")
        os.mkdir(self.uploads)

    def start(self):
        self.redis_server.start()
        self.children.append(self.redis_server)
        self.redis = Redis(lambda: self.redis_server.socket)
        from topology import free_ports
        self.port = free_ports(1)[0]
        self.start_server()

    def start_server(self):
        with open(os.path.join(self.directory, "server.log"), "ab") as log:
            self.server = subprocess.Popen(
                [sys.executable, "-B", __file__, "serve", self.name, self.uploads, str(self.port)], stdout=log, stderr=log)
        self.wait("the server to listen", self.listens)

    def listens(self):
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

    def worker(self):
        self.number += 1
        worker = Worker(self.haul, None, self.directory, f"w{self.number}", self.redis_server.url, self.store, self.number,
                        4, 2)
        worker.start()
        self.children.append(worker)
        return worker

    def field(self, id, name):
        return self.redis.call("HGET", f"{Q}job:{id}", name)

    def wait(self, what, condition, seconds=60):
        until = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > until:
                raise TimeoutError(f"{what} did not come true in {seconds} s")
            time.sleep(0.05)

    def begin(self, id):
        """Begins an upload, and waits until a quarter of the file is sent."""
        self.data = os.urandom(SIZE)
        self.store.place(f"{id}.bin", self.data)
        self.redis.call("LPUSH", Q + "jobs", json.dumps({
            "kind": "upload", "id": id, "file": f"{id}.bin", "protocol": "tus", "limit_rate": 4 << 20,
            "url": f"http://127.0.0.1:{self.port}{SERVERS[self.name][1]}", "retries": 20}))
        self.wait("a quarter of the file", lambda: int(self.field(id, "received") or 0) > SIZE // 4)

    def judge(self, id):
        self.wait(f"{id} to end", lambda: self.field(id, "state") in ("completed", "failed"), 90)
        sent = int(self.field(id, "received") or 0)
        right = self.field(id, "state") == "completed" and sent == SIZE and self.has(self.data)
        why = "" if right else (
            f"WRONG {self.field(id, 'state')}, {sent} of {SIZE} sent, the server has {self.sizes()} "
            f"{self.field(id, 'error') or ''} {self.field(id, 'message') or ''}")
        print(f"{self.name:<12} {id:<10} {'right' if right else why}", flush=True)
        return right

    def sizes(self):
        """The sizes of the server's files, and where each first differs from the file that was sent last."""
        found = []
        for folder, _, names in os.walk(self.uploads):
            for name in names:
                with open(os.path.join(folder, name), "rb") as file:
                    data = file.read()
                same = len(os.path.commonprefix([data, self.data]))
                found.append(f"{name}: {len(data)} bytes, {same} right")
        return found

    def has(self, data):
        """Whether the server has a file of these bytes, under whatever name."""
        for folder, _, names in os.walk(self.uploads):
            for name in names:
                path = os.path.join(folder, name)
                if os.path.getsize(path) == len(data):
                    with open(path, "rb") as file:
                        if file.read() == data:
                            return True
        return False

    # The trials. Each returns whether the server has the right file.

    def whole(self):
        worker = self.worker()
        self.begin("whole")
        right = self.judge("whole")
        worker.end(signal.SIGTERM)
        return right

    def paused(self):
        worker = self.worker()
        self.begin("paused")
        self.redis.call("HSET", Q + "want", "paused", "paused")
        self.wait("the pause", lambda: self.field("paused", "state") == "paused")
        worker.end(signal.SIGTERM)
        return self.go_on("paused", "resumed")

    def killed(self):
        worker = self.worker()
        self.begin("killed")
        worker.end(signal.SIGKILL)
        return self.go_on("killed", "killed")

    def go_on(self, id, how):
        worker = self.worker()
        if how == "resumed":
            self.redis.call("HSET", Q + "want", id, "running")
        self.wait("another worker", lambda: self.field(id, "worker") == worker.name)
        right = self.judge(id)
        worker.end(signal.SIGTERM)
        return right

    def restarted(self):
        worker = self.worker()
        self.begin("restarted")
        self.server.kill()
        self.server.wait()
        self.start_server()
        right = self.judge("restarted")
        worker.end(signal.SIGTERM)
        return right

    def stop(self):
        self.server.kill()
        self.server.wait()
        for child in self.children:
            if child.is_up:
                child.end(signal.SIGKILL)


def run(haul, name):
    """How many of the trials the server ended with the right file."""
    directory = tempfile.mkdtemp(prefix="haul-tus-")
    trial = Trial(haul, name, directory)
    found = []
    try:
        trial.start()
        for each in (trial.whole, trial.paused, trial.killed, trial.restarted):
            try:
                found.append(each())
            except TimeoutError as error:
                print(f"{name:<12} {each.__name__:<10} WRONG {error}", flush=True)
                found.append(False)
    finally:
        trial.stop()
        shutil.rmtree(directory, ignore_errors=True)
    return found.count(True), len(found)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("haul", help="the program under test")
    parser.add_argument("servers", nargs="*", help="the servers (default: all)", choices=[[], *SERVERS], metavar="SERVER")
    options = parser.parse_args()
    counts = [run(options.haul, name) for name in options.servers or SERVERS]
    right, all_trials = (sum(count[index] for count in counts) for index in (0, 1))
    print(f"{right} of {all_trials} uploads ended with the right file at {len(counts)} servers")
    sys.exit(0 if right == all_trials else 1)


if __name__ == "__main__":
    if sys.argv[1:2] == ["serve"]:
        SERVERS[sys.argv[2]][0](sys.argv[3], int(sys.argv[4]))
    else:
        main()
