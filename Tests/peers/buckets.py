#!/usr/bin/env python3
"""How often is an object read if the program that copies it is killed? Haul, rclone and s5cmd copy one from radosgw to
SeaweedFS (s5cmd, which knows one server at a time, to a file), are killed with SIGKILL when 0.6 of it has been read,
and are started again. The figures are for docs/guides/sources.md.

    HAUL_WEED=.build/object-servers/bin/weed Tests/peers/buckets.py HAUL RCLONE S5CMD [MIB]
"""
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
HAUL, RCLONE, S5CMD = map(os.path.abspath, sys.argv[1:4])
SIZE = (int(sys.argv[4]) if len(sys.argv) > 4 else 1024) << 20
KEYS = {"AWS_ACCESS_KEY_ID": "testkey", "AWS_SECRET_ACCESS_KEY": "testsecret", "AWS_REGION": "us-east-1"}
# Bytes per second of a connection, so that a copy takes long enough to be killed.
RATE = 25e6


class Counter:
    """Forwards connections to a server, and counts the bytes that it sends."""

    def __init__(self, endpoint):
        self.target = int(endpoint.rsplit(":", 1)[1])
        self.bytes = 0
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.endpoint = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            client = self.listener.accept()[0]
            server = socket.create_connection(("127.0.0.1", self.target))
            for ends in ((client, server), (server, client)):
                threading.Thread(target=self.forward, args=(*ends, ends[0] is server), daemon=True).start()

    def forward(self, source, destination, is_counted):
        try:
            while data := source.recv(65536):
                destination.sendall(data)
                if is_counted:
                    self.bytes += len(data)
                    time.sleep(len(data) / RATE)
        except OSError:
            pass
        for end in (source, destination):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass


class Bench:
    def __init__(self, directory):
        self.directory = directory
        self.children = []

    def prepare(self):
        self.source, self.target = self.store("rgw"), self.store("weed")
        self.redis = self.path("redis.sock")
        self.start("redis-server", "--port", "0", "--unixsocket", self.redis, "--save", "", "--dir", self.directory)
        with open(self.path("object"), "wb") as file:
            for _ in range(SIZE >> 20):
                file.write(os.urandom(1 << 20))
        for endpoint, *words in (
            (self.source, "mb", "s3://films"), (self.target, "mb", "s3://archive"),
            (self.source, "cp", self.path("object"), "s3://films/object"),
        ):
            self.s5cmd(endpoint, *words).wait()

    def path(self, name):
        return os.path.join(self.directory, name)

    def start(self, *words, **more):
        child = subprocess.Popen(
            words, env={**os.environ, **KEYS, "HOME": self.directory}, start_new_session=True,
            **{"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, **more})
        self.children.append(child)
        return child

    def store(self, kind):
        script = os.path.join(HERE, "../Support/object-server.sh")
        child = self.start("bash", script, kind, self.path(kind), stdout=subprocess.PIPE, text=True)
        return next(line.split()[1] for line in child.stdout if line.startswith("ready "))

    def s5cmd(self, endpoint, *words):
        return self.start(S5CMD, "--endpoint-url", endpoint, *words)

    def redis_cli(self, *words):
        result = subprocess.run(["redis-cli", "-s", self.redis, *words], capture_output=True, text=True, check=True)
        return result.stdout.strip()

    def haul(self, endpoint):
        os.makedirs(self.path(".aws"), exist_ok=True)
        with open(self.path(".aws/credentials"), "w") as file:
            file.write(f"[films]\naws_access_key_id=testkey\naws_secret_access_key=testsecret\nendpoint_url={endpoint}\n")
        return self.start(
            HAUL, "worker", "--redis", "unix://" + self.redis, "--store", "s3://archive", "--s3-endpoint", self.target,
            "--source", "s3://films=films", "--lease", "2")

    def rclone(self, endpoint):
        with open(self.path("rclone.conf"), "w") as file:
            for name, server in (("films", endpoint), ("archive", self.target)):
                file.write(
                    f"[{name}]\ntype=s3\nprovider=Ceph\naccess_key_id=testkey\nsecret_access_key=testsecret\n"
                    f"endpoint={server}\nregion=us-east-1\n")
        return self.start(RCLONE, "--config", self.path("rclone.conf"), "copyto", "films:films/object", "archive:archive/rclone")

    def measure(self, name, start, has_ended=None):
        counter = Counter(self.source)
        first = start(counter.endpoint)
        while counter.bytes < 0.6 * SIZE and first.poll() is None:
            time.sleep(0.01)
        os.killpg(first.pid, signal.SIGKILL)
        first.wait()
        before = counter.bytes
        second = start(counter.endpoint)
        while not has_ended() if has_ended else second.poll() is None:
            time.sleep(0.05)
        if has_ended:
            second.terminate()
        if second.wait() != 0:
            sys.exit(f"{name} failed")
        copy = self.path("copy")
        if name == "s5cmd":
            os.rename(self.path("s5cmd"), copy)
        else:
            self.s5cmd(self.target, "cp", f"s3://archive/{name}", copy).wait()
        is_right = subprocess.run(["cmp", self.path("object"), copy]).returncode == 0
        os.unlink(copy)
        print(
            f"{name}: {before / SIZE:.2f} read before the kill, {counter.bytes / SIZE:.2f} in all, "
            + ("the copy is right" if is_right else "THE COPY IS WRONG"), flush=True)

    def run(self):
        self.redis_cli(
            "LPUSH", "haul:{default}:jobs", json.dumps({"url": "s3://films/object", "id": "job", "path": "haul"}))
        self.measure(
            "haul", self.haul,
            lambda: self.redis_cli("HGET", "haul:{default}:job:job", "state") in ("completed", "failed"))
        self.measure("rclone", self.rclone)
        self.measure("s5cmd", lambda endpoint: self.s5cmd(endpoint, "cp", "s3://films/object", self.path("s5cmd")))

    def close(self):
        for child in self.children:
            if child.poll() is None:
                child.terminate()
                child.wait()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="haul-buckets-", ignore_cleanup_errors=True) as directory:
        bench = Bench(directory)
        try:
            bench.prepare()
            bench.run()
        finally:
            bench.close()
