"""Starts the set-ups, some at a time, and downloads from each: servers.py HAUL [NAME…]."""
import concurrent.futures
import hashlib
import http.client
import os
import random
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import time
import urllib.parse

import setups
from pacer import Pacer

WIDTH = 3
SIZE = 6_000_000
CHECKS = ["plain", "checksum", "segmented", "resumed", "changed"]


class At:
    """Where a server runs."""


class Bench:
    def __init__(self, haul, setup, work):
        self.haul, self.setup = haul, setup
        self.directory = os.path.join(work, setup.name)
        self.files = os.path.join(self.directory, "files")
        self.processes = []
        self.count = 0
        for path in (self.directory, self.files):
            os.mkdir(path)
            os.chmod(path, 0o777)
        self.old, self.new = (random.Random(setup.name + each).randbytes(SIZE) for each in ("old", "new"))
        for check in CHECKS:
            self.put(check, self.old, age=3000)

    def put(self, check, data, age):
        """Writes the file of a check. Its time is long past, so that a date distinguishes its versions."""
        path = os.path.join(self.files, check + ".bin")
        with open(path + ".new", "wb") as file:
            file.write(data)
        os.chmod(path + ".new", 0o644)
        then = int(time.time()) - age
        os.utime(path + ".new", (then, then))
        os.rename(path + ".new", path)

    # The server.

    def launch(self, setup, directory, behind=None):
        at = At()
        at.directory, at.files, at.behind = directory, self.files, behind
        at.port = free_port()
        at.certificate, at.key = (os.path.join(os.path.dirname(self.directory), name) for name in ("tls.pem", "tls.key"))
        log = open(os.path.join(directory, "log"), "wb")
        environment = dict(os.environ, HOME=directory, XDG_DATA_HOME=directory, XDG_CONFIG_HOME=directory)
        process = subprocess.Popen(
            setup.start(at), cwd=directory, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment,
            start_new_session=True)
        self.processes.append(process)
        return at.port

    def start(self):
        behind = None
        if self.setup.behind:
            directory = os.path.join(self.directory, "behind")
            os.mkdir(directory)
            os.chmod(directory, 0o777)
            behind = self.launch(next(each for each in setups.ALL if each.name == self.setup.behind), directory)
            self.await_answer(behind, "http")
        port = self.launch(self.setup, self.directory, behind)
        self.await_answer(port, self.setup.scheme)
        self.pacer = Pacer(port)

    def await_answer(self, port, scheme):
        end = time.monotonic() + 40
        while True:
            try:
                client = (
                    http.client.HTTPSConnection("127.0.0.1", port, timeout=5, context=ssl._create_unverified_context())
                    if scheme == "https" else http.client.HTTPConnection("127.0.0.1", port, timeout=5))
                client.request("HEAD", "/plain.bin")
                if client.getresponse().status in (200, 302, 401):
                    return
            except (OSError, http.client.HTTPException):
                pass
            if time.monotonic() > end or self.processes[-1].poll() is not None:
                raise RuntimeError("it does not start: " + self.words_of_server())
            time.sleep(0.1)

    def words_of_server(self):
        for name in ("log", "error", "behind/log", "behind/error"):
            try:
                with open(os.path.join(self.directory, name), errors="replace") as file:
                    if words := file.read()[-300:].replace("\n", " "):
                        return words
            except OSError:
                pass
        return "it logs nothing"

    def stop(self):
        for process in self.processes:
            end_group(process)
        if hasattr(self, "pacer"):
            self.pacer.close()

    # The downloads.

    def get(self, check, *options):
        """Starts haul get in a directory for this check."""
        folder = os.path.join(self.directory, "got-" + check)
        os.makedirs(folder, exist_ok=True)
        login = "".join(f"{urllib.parse.quote(each)}{mark}" for each, mark in zip(setups.LOGIN, ":@")) \
            if self.setup.login else ""
        url = f"{self.setup.scheme}://{login}127.0.0.1:{self.pacer.port}/{check}.bin"
        trust = ["--ca", os.path.join(os.path.dirname(self.directory), "tls.pem")] if self.setup.scheme == "https" else []
        log = open(os.path.join(folder, "log"), "ab")
        process = subprocess.Popen(
            [self.haul, "get", "--json", "--durability", "process", "-o", folder + "/", *trust, *options, url],
            stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
            env=dict(os.environ, XDG_STATE_HOME=os.path.join(self.directory, "state-" + check)))
        self.processes.append(process)
        return process, folder

    def finish(self, check, run, *allowed):
        """Waits for the end of the download. The file must be one of the allowed versions."""
        process, folder = run
        status = process.wait(60)
        path = os.path.join(folder, check + ".bin")
        if status != 0:
            return f"exit status {status}: {self.last_words(folder)}"
        with open(path, "rb") as file:
            return None if file.read() in allowed else "WRONG BYTES"

    def last_words(self, folder):
        with open(os.path.join(folder, "log"), errors="replace") as log:
            return (log.read().strip().splitlines() or [""])[-1][:200]

    def has_event(self, check, event):
        with open(os.path.join(self.directory, "got-" + check, "log")) as log:
            return f'"event":"{event}"' in log.read()

    def interrupt(self, check):
        """Interrupts a download in the middle, with some of its bytes on the disk."""
        self.pacer.rate = 3_000_000
        run = self.get(check, "-x", "1")
        partial = lambda: any(
            name.startswith(".haul-") and os.stat(os.path.join(run[1], name)).st_blocks * 512 >= 1_500_000
            for name in os.listdir(run[1]) if name != ".haul-store")
        arrived = lambda: '"event":"progress"' in open(os.path.join(run[1], "log")).read()
        end = time.monotonic() + 30
        while not (arrived() and partial()):
            if run[0].poll() is not None or time.monotonic() > end:
                raise RuntimeError("not interrupted: " + self.last_words(run[1]))
            time.sleep(0.05)
        os.kill(run[0].pid, signal.SIGINT)
        run[0].wait(30)
        self.pacer.rate = None

    def plain(self):
        return self.finish("plain", self.get("plain"), self.old)

    def checksum(self):
        return self.finish(
            "checksum", self.get("checksum", "--checksum", "sha256:" + hashlib.sha256(self.old).hexdigest()), self.old)

    def segmented(self):
        self.pacer.rate, before = 1_500_000, self.pacer.connections
        problem = self.finish("segmented", self.get("segmented", "-x", "8"), self.old)
        count, self.pacer.rate = self.pacer.connections - before, None
        if problem is None and self.setup.continues and count < 2:
            return "over one connection"
        return problem

    def resumed(self):
        self.interrupt("resumed")
        problem = self.finish("resumed", self.get("resumed"), self.old)
        if problem is None and self.setup.continues == self.has_event("resumed", "restarted"):
            return "restarted" if self.setup.continues else "continued, which was not expected"
        return problem

    def changed(self):
        self.interrupt("changed")
        self.put("changed", self.new, age=1000)
        versions = [self.new] if self.setup.shows_changes else [self.new, self.old]
        return self.finish("changed", self.get("changed"), *versions)

    def run(self):
        try:
            self.start()
            return [self.check(name) for name in CHECKS]
        except (OSError, RuntimeError, subprocess.SubprocessError) as error:
            return [str(error)] + ["not tried"] * (len(CHECKS) - 1)
        finally:
            self.stop()

    def check(self, name):
        try:
            return getattr(self, name)()
        except (OSError, RuntimeError, subprocess.SubprocessError) as error:
            return str(error)


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


def end_group(process):
    """Ends a process that was started here, and its children. All of them are in its process group."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, number)
        except ProcessLookupError:
            break
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:
            pass


def main():
    haul, names = sys.argv[1], sys.argv[2:]
    chosen = [each for each in setups.ALL if not names or any(each.name.startswith(name) for name in names)]
    work = tempfile.mkdtemp(prefix="haul-servers-")
    os.chmod(work, 0o755)
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=127.0.0.1", "-addext",
         "subjectAltName=IP:127.0.0.1", "-keyout", work + "/tls.key", "-out", work + "/tls.pem"],
        check=True, capture_output=True)
    benches = [Bench(haul, setup, work) for setup in chosen]
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: sys.exit(130))
    wrong = []
    try:
        print(f"{'':24}" + "".join(f"{check:>11}" for check in CHECKS), flush=True)
        with concurrent.futures.ThreadPoolExecutor(WIDTH) as pool:
            for setup, results in zip(chosen, pool.map(Bench.run, benches)):
                print(f"{setup.name:24}" + "".join(f"{'right' if each is None else 'WRONG':>11}" for each in results), flush=True)
                wrong += [f"{setup.name}, {check}: {each}" for check, each in zip(CHECKS, results) if each is not None]
    finally:
        for bench in benches:
            bench.stop()
        shutil.rmtree(work, ignore_errors=True)
    print(f"{len(chosen)} set-ups, {len(chosen) * len(CHECKS) - len(wrong)} of {len(chosen) * len(CHECKS)} downloads right")
    for each in wrong:
        print(each)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
