"""The CPU time of downloads: of 500 small files, and of one large file, beside other programs in the same run.

  cost.py HAUL DIRECTORY [files|large]      started by run.sh

Only CPU time is compared (getrusage, user and system). On a busy machine it says more than elapsed time. HAUL_BEFORE
may name another build of haul. HAUL_PEER may name the C source of another downloader, whose arguments are the URL, the
file and HAUL_PEER_OPTIONS. DIRECTORY needs about 3 GB.
"""
import os
import shutil
import statistics
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "chaos"))
from processes import Process, RedisServer, Worker
from resp import Redis
from stores import Directory

ROUNDS = 5
FILES, FILE_SIZE, PARALLEL = 500, 50_000, 50
LARGE_SIZE = 1 << 30

NGINX = """
daemon off; worker_processes 2; pid {d}/nginx.pid; error_log {d}/nginx.log; worker_rlimit_nofile 8192;
events {{ worker_connections 4096; }}
http {{
    access_log off; sendfile on; tcp_nopush on; keepalive_requests 100000; root {d}/www;
    client_body_temp_path {d}/t1; proxy_temp_path {d}/t2; fastcgi_temp_path {d}/t3; uwsgi_temp_path {d}/t4; scgi_temp_path {d}/t5;
    ssl_certificate {d}/cert.pem; ssl_certificate_key {d}/key.pem; ssl_session_cache shared:s:1m;
    server {{ listen 127.0.0.1:{http}; listen 127.0.0.1:{https} ssl; }}
}}
"""


class Bench:
    def __init__(self, haul, directory):
        self.haul, self.directory = os.path.abspath(haul), os.path.abspath(directory)
        self.builds = {"haul get": self.haul}
        if os.environ.get("HAUL_BEFORE"):
            self.builds["haul get, before"] = os.path.abspath(os.environ["HAUL_BEFORE"])
        self.port = 20000 + os.getpid() % 10000
        self.certificate = f"{self.directory}/cert.pem"
        self.figures = {}

    def start(self):
        os.makedirs(f"{self.directory}/www")
        os.chmod(self.directory, 0o755)
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=haul",
             "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", f"{self.directory}/key.pem", "-out", self.certificate],
            check=True, capture_output=True)
        user = "user root;" if os.getuid() == 0 else ""
        with open(f"{self.directory}/nginx.conf", "w") as file:
            file.write(user + NGINX.format(d=self.directory, http=self.port, https=self.port + 1))
        binary = shutil.which("nginx") or "/usr/sbin/nginx"
        self.nginx = Process(
            [binary, "-p", self.directory, "-c", f"{self.directory}/nginx.conf", "-e", f"{self.directory}/nginx.log"],
            f"{self.directory}/nginx.out")
        self.nginx.start()
        while not os.path.exists(f"{self.directory}/nginx.pid"):
            assert self.nginx.is_up, "nginx does not start"
            time.sleep(0.02)

    def end(self):
        self.nginx.end(15)

    def url(self, scheme, name):
        return f"{scheme}://127.0.0.1:{self.port + (scheme == 'https')}/{name}"

    def fresh(self):
        """An empty directory for the files. Earlier writes are synced first, so that no program pays for another one's
        writes."""
        shutil.rmtree(f"{self.directory}/got", ignore_errors=True)
        shutil.rmtree(f"{self.directory}/state", ignore_errors=True)
        os.mkdir(f"{self.directory}/got")
        os.sync()
        return f"{self.directory}/got"

    def measure(self, what, name, command, count):
        """Runs a command that must leave `count` files."""
        folder = self.fresh()
        begun = time.monotonic()
        process = subprocess.Popen(
            command, cwd=folder, env=os.environ | {"XDG_STATE_HOME": f"{self.directory}/state"},
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        seconds = time.monotonic() - begun
        if process.returncode != 0 or len(os.listdir(folder)) != count:
            raise SystemExit(f"{name} failed ({process.returncode}): {' '.join(command)[:200]}")
        self.note(what, name, usage.ru_utime, usage.ru_stime, seconds)

    def note(self, what, name, user, system, seconds):
        self.figures.setdefault((what, name), []).append((user + system, user, system, seconds))

    def through_worker(self, what, build, options, elements, path):
        """The CPU time of a worker from the first push to the last final state."""
        folder = self.fresh()
        directory = f"{self.directory}/worker"
        shutil.rmtree(directory, ignore_errors=True)
        os.mkdir(directory)
        redis = RedisServer(directory, "redis")
        redis.start()
        worker = Worker(build, None, directory, "cost", redis.url, Directory(folder), 1, options["slots"], 8)
        worker.command += [word for pair in options.items() if pair[0] != "slots" for word in pair]
        worker.start()
        connection = Redis(redis.socket, 10)
        while not worker.has_logged("working"):
            time.sleep(0.05)
        cpu, begun = worker.cpu, time.monotonic()
        connection.call("LPUSH", "haul:{default}:jobs", *elements)
        while connection.call("LLEN", "haul:{default}:jobs") + connection.call("ZCARD", "haul:{default}:leases") > 0:
            time.sleep(0.02)
        cpu, seconds = worker.cpu - cpu, time.monotonic() - begun
        is_whole = len([name for name in os.listdir(folder) if not name.startswith(".")]) == len(elements)
        worker.end(15)
        redis.end(15)
        if not is_whole:
            raise SystemExit("the worker has not downloaded all files: see " + worker.log)
        self.note(what, path, cpu, 0, seconds)

    # The measurements.

    def files(self):
        os.mkdir(f"{self.directory}/www/small")
        for number in range(FILES):
            with open(f"{self.directory}/www/small/s{number}.bin", "wb") as file:
                file.write(os.urandom(FILE_SIZE))
        for _ in range(ROUNDS):
            for scheme in ["http", "https"]:
                urls = [self.url(scheme, f"small/s{number}.bin") for number in range(FILES)]
                lists = f"{self.directory}/urls", f"{self.directory}/config"
                with open(lists[0], "w") as plain, open(lists[1], "w") as config:
                    plain.writelines(f"{url}\n" for url in urls)
                    config.writelines(f'url="{url}"\nremote-name\n' for url in urls)
                what = f"{FILES} files of {FILE_SIZE // 1000} KB, {scheme}"
                for name, build in self.builds.items():
                    self.measure(what, name, [build, "get", "--ca", self.certificate, *urls], FILES)
                self.measure(what, "wget2", [
                    "wget2", "-q", "--no-config", f"--ca-certificate={self.certificate}", "--max-threads", str(PARALLEL),
                    "-i", lists[0]], FILES)
                self.measure(what, "curl -Z", [
                    "curl", "-s", "--cacert", self.certificate, "-Z", "--parallel-max", str(PARALLEL), "-K", lists[1]], FILES)
                elements = ['{"url":"%s","id":"%d"}' % (url, number) for number, url in enumerate(urls)]
                for name, build in self.builds.items():
                    self.through_worker(
                        what, build, {"slots": 96, "--connections-per-host": str(PARALLEL), "--ca": self.certificate},
                        elements, name.replace("haul get", "a worker"))
        self.report(1)

    def large(self):
        with open(f"{self.directory}/www/large.bin", "wb") as file:
            for _ in range(LARGE_SIZE >> 20):
                file.write(os.urandom(1 << 20))
        peer = os.environ.get("HAUL_PEER")
        if peer:
            subprocess.run(
                ["gcc", "-O2", "-w", "-o", f"{self.directory}/peer", peer, "-lcurl", "-lcrypto", "-lpthread"], check=True)
        url = self.url("http", "large.bin")
        what = f"one file of {LARGE_SIZE >> 30} GiB, s for each GiB"
        for _ in range(ROUNDS):
            for name, build in self.builds.items():
                self.measure(what, name + ", process", [build, "get", "--durability", "process", "-o", "f", url], 1)
            self.measure(what, "haul get, disk", [self.haul, "get", "-o", "f", url], 1)
            for name, build in self.builds.items():
                self.through_worker(
                    what, build, {"slots": 4, "--durability": "process"}, ['{"url":"%s","id":"f"}' % url],
                    name.replace("haul get", "a worker") + ", process")
            if peer:
                options = os.environ.get("HAUL_PEER_OPTIONS", "").split()
                self.measure(what, "C", [f"{self.directory}/peer", url, f"{self.directory}/got/f", *options], 1)
            self.measure(what, "curl", ["curl", "-s", "-o", "f", url], 1)
            self.measure(what, "curl, to nowhere", ["curl", "-s", "-o", "/dev/null", url], 0)
        self.report(LARGE_SIZE / (1 << 30))

    def report(self, unit):
        for (what, name), figures in sorted(self.figures.items()):
            cpu = [figure[0] / unit for figure in figures]
            middle = [statistics.median(column) / unit for column in zip(*figures)]
            print(f"{what}: {name}: CPU minimum {min(cpu):.2f} s, median {middle[0]:.2f} ({middle[1]:.2f} + {middle[2]:.2f}); "
                  f"{middle[3]:.2f} s on the clock", flush=True)
        self.figures.clear()


def main(haul, directory, *parts):
    bench = Bench(haul, directory)
    bench.start()
    try:
        for part in parts or ["files", "large"]:
            {"files": bench.files, "large": bench.large}[part]()
    finally:
        bench.end()


main(*sys.argv[1:])
