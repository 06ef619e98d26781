"""Redis, a worker and `haul web` with one operator, for programs that use the API."""

import pathlib
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import urllib.request

import origin


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def eventually(what, condition, within=20):
    end = time.monotonic() + within
    while True:
        try:
            if condition():
                return
        except (OSError, subprocess.SubprocessError):
            pass
        if time.monotonic() > end:
            raise SystemExit(f"waited {within} s for {what}")
        time.sleep(0.05)


def answers(port):
    return urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=5).status == 200


class Fleet:
    def __init__(self, haul, *options):
        self.haul = haul
        self.work = pathlib.Path(tempfile.mkdtemp(prefix="haul-schemathesis-"))
        self.processes = []
        socket_path = self.work / "redis"
        (self.work / "root").mkdir()
        self.start("redis", "redis-server", "--port", "0", "--unixsocket", str(socket_path), "--save", "", "--dir", str(self.work))
        eventually("Redis", lambda: subprocess.run(["redis-cli", "-s", socket_path, "PING"], capture_output=True, check=True).stdout == b"PONG\n")
        redis = f"unix://{socket_path}"
        # All requests of jobs go to a proxy of ours, so that none leaves this machine. It has every file.
        self.start("worker", haul, "worker", "--redis", redis, "--root", str(self.work / "root"), "--name", "one", "--lease", "2",
                   "--allow-address", "127.0.0.0/8", "--proxy", origin.serve())
        made = subprocess.run([haul, "web", "hash-password", "schemathesis", "--role", "operator", "--token"], capture_output=True, text=True, check=True)
        (self.work / "users").write_text(made.stdout)
        self.token = made.stderr.split()[-1]
        self.port = free_port()
        self.web = self.start("web", haul, "web", "--redis", redis, "--listen", f"127.0.0.1:{self.port}", "--auth", str(self.work / "users"), *options)
        eventually("haul web", lambda: answers(self.port))

    def start(self, name, *command):
        log = open(self.work / f"{name}.log", "w")
        process = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        self.processes.append(process)
        return process

    def close(self):
        for process in reversed(self.processes):
            process.send_signal(signal.SIGTERM)
        for process in self.processes:
            try:
                process.wait(15)
            except subprocess.TimeoutExpired:
                process.kill()
        shutil.rmtree(self.work, ignore_errors=True)
