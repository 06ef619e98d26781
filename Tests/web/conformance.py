"""Starts Redis, a worker and `haul web`, and lets Schemathesis try what docs/reference/openapi.json describes. See conformance.sh."""

import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request

import schemathesis
import schemathesis.cli
from hypothesis import strategies

import origin

HERE = pathlib.Path(__file__).parent

# What a pattern alone does not say: which hosts can be. In docs/reference/openapi.json these have a format.
HOSTS = strategies.from_regex(
    r"\A(?:[a-z][a-z0-9_-]{0,20}(?:\.[a-z][a-z0-9-]{0,9}){0,3}|127\.0\.0\.[1-9]|\[::1\]|bücher\.example)(?::[1-9][0-9]{0,3})?\Z", fullmatch=True)
URLS = strategies.builds(
    "{}://{}{}".format, strategies.sampled_from(["http", "https", "HTTP"]), HOSTS,
    strategies.from_regex(r"\A(?:[/?#][!-~é]{0,40})?\Z", fullmatch=True))
schemathesis.openapi.format("haul-url", URLS)
schemathesis.openapi.format("haul-host", HOSTS)


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
    def __init__(self, haul):
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
        self.web = self.start("web", haul, "web", "--redis", redis, "--listen", f"127.0.0.1:{self.port}", "--auth", str(self.work / "users"))
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


def main():
    fleet = Fleet(sys.argv[1])
    try:
        os.environ["TOKEN"] = fleet.token
        status = schemathesis.cli.schemathesis(
            ["--config-file", str(HERE / "conformance.toml"), "run", "docs/reference/openapi.json",
             "--url", f"http://127.0.0.1:{fleet.port}/api", *sys.argv[2:]], standalone_mode=False)
        if fleet.web.poll() is not None:
            print((fleet.work / "web.log").read_text()[-2000:], file=sys.stderr)
            raise SystemExit("haul web has ended")
    finally:
        fleet.close()
    sys.exit(status)


if __name__ == "__main__":
    main()
