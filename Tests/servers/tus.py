"""Real workers and aiohttp-tus: uploads are paused, killed and continued by other workers. tus.sh starts this
script."""
import argparse
import json
import os
import shutil
import signal
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


def serve(place):
    """The server, with aiohttp's default limit of a request: 1 MiB. Larger requests get 413."""
    from pathlib import Path

    from aiohttp import web
    from aiohttp_tus import setup_tus

    app = setup_tus(web.Application(), upload_path=Path(place), allow_overwrite_files=True)
    web.run_app(app, host="127.0.0.1", port=int(sys.argv[3]), print=None)


class Trial:
    def __init__(self, haul, directory):
        self.haul, self.directory, self.number, self.children = haul, directory, 0, []
        self.redis_server = RedisServer(directory, "redis")
        self.store = Directory(os.path.join(directory, "root"))
        self.place = os.path.join(directory, "uploads")
        os.mkdir(self.place)

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
                [sys.executable, "-B", __file__, "serve", self.place, str(self.port)], stdout=log, stderr=log)

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
        """Begins an upload, and waits until the server has a quarter of the file."""
        self.data = os.urandom(SIZE)
        self.store.place(f"{id}.bin", self.data)
        self.redis.call("LPUSH", Q + "jobs", json.dumps({
            "kind": "upload", "id": id, "file": f"{id}.bin", "protocol": "tus", "limit_rate": 4 << 20,
            "url": f"http://127.0.0.1:{self.port}/uploads", "retries": 20}))
        self.wait("a quarter at the server", lambda: int(self.redis.call("HGET", f"{Q}offsets:{id}", "0") or 0) > SIZE // 4)

    def judge(self, id):
        self.wait(f"{id} to be completed", lambda: self.field(id, "state") == "completed")
        with open(os.path.join(self.place, f"{id}.bin"), "rb") as file:
            right = file.read() == self.data
        sent = int(self.field(id, "received") or 0)
        print(f"{id:<10} {'right' if right and sent == SIZE else 'WRONG'}", flush=True)
        return right and sent == SIZE

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
        had = int(self.redis.call("HGET", f"{Q}offsets:{id}", "0"))
        worker = self.worker()
        if how == "resumed":
            self.redis.call("HSET", Q + "want", id, "running")
        self.wait("another worker", lambda: self.field(id, "worker") == worker.name)
        right = self.judge(id) and had > SIZE // 4
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


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("haul", help="the program under test")
    options = parser.parse_args()
    directory = tempfile.mkdtemp(prefix="haul-tus-")
    trial = Trial(options.haul, directory)
    try:
        trial.start()
        found = [trial.whole(), trial.paused(), trial.killed(), trial.restarted()]
    finally:
        trial.stop()
        shutil.rmtree(directory, ignore_errors=True)
    sys.exit(0 if all(found) else 1)


if __name__ == "__main__":
    if sys.argv[1:2] == ["serve"]:
        serve(sys.argv[2])
    else:
        main()
