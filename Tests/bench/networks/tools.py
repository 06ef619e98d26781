"""The measured downloaders. Each one downloads all URLs into an empty directory. The result is its time."""

import os
import resource
import shutil
import socket
import subprocess
import threading
import time


class Outcome:
    def __init__(self, seconds, cpu, is_right):
        self.seconds, self.cpu, self.is_right = seconds, cpu, is_right


class Tools:
    def __init__(self, stage, haul, work, limit):
        self.stage, self.haul, self.work, self.limit = stage, haul, work, limit
        self.runs = 0
        self.directory = None
        self.worker = None

    def run(self, name, row, urls):
        self.runs += 1
        self.directory = f"{self.work}/got/{self.runs}"
        os.makedirs(self.directory)
        if name == "worker":
            outcome = self.through_worker(row, urls)
        else:
            command = self.command(name, row, urls)
            if row.syncs_others and name != "get":
                command = ["sh", "-c", '"$@" && sync *', "sh", *command]
            outcome = self.through(command)
        outcome.is_right = outcome.is_right and all(self.is_same(url) for url in urls)
        if len(urls) == 1:
            self.forget_files()
        return outcome

    def forget_files(self):
        """Removes what was downloaded. Many files are removed only after the last program: for some minutes ext4 passes over
        each inode that has become free, which makes whoever creates files then several times slower."""
        shutil.rmtree(f"{self.work}/got", ignore_errors=True)

    def command(self, name, row, urls):
        many = len(urls) > 1
        with open(f"{self.work}/urls", "w") as file:
            file.writelines(f"url=\"{url}\"\nremote-name\n" if name == "curl" else f"{url}\n" for url in urls)
        certificate = f"{self.work}/cert.pem"
        match name:
            case "curl":
                parallel = ["-Z", "--parallel-max", str(row.parallel)] if many else []
                return ["curl", "-s", "--cacert", certificate, *parallel, "-K", f"{self.work}/urls"]
            case "aria2":
                parallel = ["-j", str(row.parallel)] if many else ["-s16", "-k1M"]
                return ["aria2c", "-q", "--no-conf", "--ca-certificate", certificate, "-x16", "--file-allocation=none",
                        *parallel, "-i", f"{self.work}/urls"]
            case "wget2":
                parallel = ["--max-threads", str(row.parallel)] if many else row.wget2
                return ["wget2", "-q", "--no-config", f"--ca-certificate={certificate}", *parallel, "-i", f"{self.work}/urls"]
            case "get":
                return [self.haul, "get", "--ca", certificate, *self.durability(row), *row.get, *urls]
        raise ValueError(name)

    @staticmethod
    def durability(row):
        return [] if row.is_synced else ["--durability", "process"]

    def through(self, command):
        state = f"{self.work}/state"
        shutil.rmtree(state, ignore_errors=True)
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        begun = time.monotonic()
        process = self.stage.start(
            self.stage.client, command, cwd=self.directory, env=os.environ | {"XDG_STATE_HOME": state})
        # A wait with a timeout polls, up to 50 ms too late.
        alarm = threading.Timer(self.limit, process.kill)
        alarm.start()
        status = process.wait()
        seconds = time.monotonic() - begun
        alarm.cancel()
        self.stage.end(process)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return Outcome(seconds, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, status == 0)

    def is_same(self, url):
        name = url.rsplit("/", 1)[1]
        return subprocess.run(
            ["cmp", "-s", f"{self.work}/www/{self.source(name)}", f"{self.directory}/{name}"]).returncode == 0

    def source(self, name):
        return f"small/{name}" if name.startswith("s") else name

    def through_worker(self, row, urls):
        """From the first LPUSH to the last final state. The worker runs already. It is new for each run, and knows no
        servers."""
        path = f"{self.work}/redis.sock"
        if os.path.exists(path):
            os.unlink(path)
        redis = self.stage.start(self.stage.client, [
            "redis-server", "--port", "0", "--unixsocket", path, "--dir", self.work, "--save", "", "--appendonly", "no"])
        wait_for(lambda: os.path.exists(path), 10)
        connection = Connection(path)
        worker = self.stage.start(self.stage.client, [
            self.haul, "worker", "--redis", f"unix://{path}", "--root", self.directory, "--name", "bench",
            "--allow-address", "0.0.0.0/0", "--ca", f"{self.work}/cert.pem", *self.durability(row), *row.worker])
        wait_for(lambda: connection.call("EXISTS", "haul:{default}:worker:bench") or
                 b"haul:{default}:workers" in connection.call("KEYS", "haul:{default}:workers*"), 20)
        time.sleep(0.3)
        elements = ['{"url":"%s","id":"j%d"}' % (url, n) for n, url in enumerate(urls)]
        cpu = processor_time(worker.pid)
        begun = time.monotonic()
        for n in range(0, len(elements), 100):
            connection.call("LPUSH", "haul:{default}:jobs", *reversed(elements[n:n + 100]))
        done = set()
        while len(done) < len(urls) and time.monotonic() < begun + self.limit:
            left = [n for n in range(len(urls)) if n not in done]
            # Query only one job at a time: many queries would slow down what is measured.
            if connection.call("HGET", "haul:{default}:job:j%d" % left[-1], "state") in (b"completed", b"failed"):
                done.add(left[-1])
            else:
                time.sleep(0.002)
        seconds = time.monotonic() - begun
        cpu = processor_time(worker.pid) - cpu
        connection.close()
        self.stage.end(worker)
        self.stage.end(redis)
        return Outcome(seconds, cpu, len(done) == len(urls))


class Connection:
    """A minimal Redis client."""

    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX)
        wait_for(lambda: self.socket.connect_ex(path) == 0, 10)
        self.file = self.socket.makefile("rb")

    def call(self, *words):
        encoded = [word.encode() for word in words]
        self.socket.sendall(b"*%d\r\n" % len(encoded) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in encoded))
        return self.read()

    def read(self):
        line = self.file.readline()
        kind, rest = line[:1], line[1:-2]
        if kind == b"$":
            return None if rest == b"-1" else self.file.read(int(rest) + 2)[:-2]
        if kind == b"*":
            return [self.read() for _ in range(int(rest))]
        if kind == b"-":
            raise RuntimeError(rest.decode())
        return int(rest) if kind == b":" else rest

    def close(self):
        self.file.close()
        self.socket.close()


def processor_time(pid):
    """The CPU seconds of the process that `ip netns exec` has become."""
    with open(f"/proc/{pid}/stat") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def wait_for(condition, seconds):
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError("gave up waiting")
        time.sleep(0.01)
