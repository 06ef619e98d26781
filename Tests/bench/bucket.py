"""Measures a worker with a bucket, and curl with other uploaders: times, requests, memory. bucket.sh starts this
script."""
import argparse
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "chaos"))
import results
from ledger import Q
from processes import Process, Proxy, RedisServer, StoreServer
from resp import Redis
from s3 import KEY, S3, SECRET
from topology import free_ports

NAMES = {"rgw": "radosgw", "weed": "SeaweedFS"}
NGINX = """
daemon off; user root; worker_processes 1; pid {work}/nginx.pid; error_log {work}/nginx.log;
events {{ worker_connections 4096; }}
http {{
    access_log off; sendfile on; keepalive_requests 100000;
    client_body_temp_path {work}/t1; proxy_temp_path {work}/t2; fastcgi_temp_path {work}/t3;
    uwsgi_temp_path {work}/t4; scgi_temp_path {work}/t5;
    server {{ listen 127.0.0.1:{port}; root {work}/www; location /slow/ {{ alias {work}/www/; limit_rate 1m; }} }}
}}
"""


class Worker(Process):
    """A worker with a key prefix of its own. Through the proxy its requests are counted."""

    def __init__(self, bench, name, endpoint, slots, *options):
        super().__init__(
            [bench.options.haul, "worker", "--redis", bench.redis_server.url, "--store", "s3://test/" + name,
             "--s3-endpoint", endpoint, "--name", name, "--slots", str(slots), "--allow-address", "127.0.0.0/8", *options],
            f"{bench.work}/{name}.log", env=bench.environment)
        self.redis = bench.redis

    def __enter__(self):
        self.start()
        while not self.redis.call("ZCARD", Q + "workers"):
            time.sleep(0.01)
        return self

    def __exit__(self, *_):
        self.end(signal.SIGTERM)
        self.redis.call("DEL", Q + "workers")

    @property
    def most_memory(self):
        with open(f"/proc/{self.child.pid}/status") as status:
            return next(int(line.split()[1]) >> 10 for line in status if line.startswith("VmHWM"))


class Bench:
    def __init__(self, options, work):
        self.options, self.work = options, work
        os.mkdir(work + "/www")
        os.chmod(work, 0o755)
        nginx, proxy = free_ports(2)
        with open(work + "/nginx.conf", "w") as file:
            file.write(NGINX.format(work=work, port=nginx))
        self.url = f"http://127.0.0.1:{nginx}"
        self.nginx = Process(["nginx", "-p", work, "-c", work + "/nginx.conf", "-e", work + "/nginx.log"], work + "/nginx.out")
        self.redis_server, self.server = RedisServer(work, "redis"), StoreServer(work, options.server)
        self.proxy = Proxy(work, self.server, proxy)
        self.environment = os.environ | {
            "AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_EC2_METADATA_DISABLED": "true",
            "AWS_REGION": "us-east-1", "AWS_DEFAULT_REGION": "us-east-1", "HOME": work}
        # rclone cannot use this variable, and everything here is plain HTTP.
        self.environment.pop("AWS_CA_BUNDLE", None)

    def go(self):
        for process in (self.redis_server, self.server, self.proxy, self.nginx):
            process.start()
        self.endpoint = "http://" + self.server.host
        self.redis, self.s3 = Redis(self.redis_server.socket, 30), S3(self.server.host)
        print(f"{self.options.server}, load of the machine {os.getloadavg()[0]:.1f}", flush=True)
        for part in self.options.parts:
            getattr(self, part)()

    def stop(self):
        for process in (self.nginx, self.proxy, self.server, self.redis_server):
            if process.is_up:
                process.end(signal.SIGTERM)

    # The measurements.

    def speed(self):
        """One large file: to nowhere, from a disk to the bucket, and through the bus. Each turn has keys of its own: rclone sends
        nothing where the object is there already."""
        self.file("large", self.options.size << 20)
        mib = f"{self.options.size} MiB"
        own_times, copy_times = [], {tool: [] for tool in self.options.tools}
        for turn in range(self.options.repeat):
            nowhere = self.run("curl", "-sS", "-o", "/dev/null", self.url + "/large")
            disk = self.run("curl", "-sS", "-o", self.work + "/copy", self.url + "/large")
            cpu = 0
            for tool in self.in_order(turn):
                if tool == "haul":
                    with Worker(self, f"speed-{turn}", self.endpoint, 3) as worker:
                        before = worker.cpu
                        own_times.append(self.jobs(["large"]))
                        cpu = worker.cpu - before
                    self.check(f"speed-{turn}/large", "large")
                else:
                    copy_times[tool].append(self.run(*self.copy(tool, self.work + "/copy", f"copied-{turn}")))
                    self.check(f"copied-{turn}-{tool}", "large")
            os.unlink(self.work + "/copy")
            own, copied = own_times[-1], {tool: seconds[-1] for tool, seconds in copy_times.items()}
            best = min(copied, key=copied.get)
            print(f"  {mib}: curl to nowhere {nowhere:.2f} s, curl to a file {disk:.2f} s, "
                  + ", ".join(f"{tool} {seconds:.2f} s" for tool, seconds in copied.items())
                  + f", haul {own:.2f} s: {own / max(nowhere, copied[best]):.2f} of the longer of curl and {best}, "
                  f"{own / (disk + copied['aws']):.2f} of curl and then aws; {cpu:.2f} s of haul's CPU", flush=True)
        results.keep(f"bucket-{self.options.server}", f"{mib} to {NAMES[self.options.server]}; the others send a file of the disk", "s",
                     own_times, copy_times)
        os.unlink(self.work + "/www/large")

    def small(self):
        """Many small files."""
        names = [f"s{n}" for n in range(self.options.count)]
        os.makedirs(self.work + "/small", exist_ok=True)
        for name in names:
            self.file(name, 10 << 10)
            shutil.copy(f"{self.work}/www/{name}", f"{self.work}/small/{name}")
        own_times, copy_times, cpu = [], {tool: [] for tool in self.options.tools}, 0
        for turn in range(self.options.repeat):
            for tool in self.in_order(turn):
                if tool == "haul":
                    with Worker(self, f"small-{turn}", self.endpoint, 64) as worker:
                        before = worker.cpu
                        own_times.append(self.jobs(names))
                        cpu += worker.cpu - before
                else:
                    copy_times[tool].append(self.run(*self.copy_all(tool, self.work + "/small", f"small-{turn}")))
                for name in names:
                    self.check(f"small-{turn}/{name}" if tool == "haul" else f"small-{turn}-{tool}/{name}", name)
        print(f"  {len(names)} of 10 KiB: " + ", ".join(
            f"{tool} {statistics.median(seconds):.2f} s" for tool, seconds in copy_times.items())
            + f", haul {statistics.median(own_times):.2f} s; {cpu / self.options.repeat:.2f} s of haul's CPU", flush=True)
        results.keep(f"objects-{self.options.server}", f"{len(names)} objects of 10 KiB to {NAMES[self.options.server]}; the same", "s",
                     own_times, copy_times)

    def requests(self):
        """The requests to the store for each object."""
        for count, size in ((200, 10 << 10), (1, 64 << 20), (1, 256 << 20)):
            names = [f"r{size}-{n}" for n in range(count)]
            for name in names:
                self.file(name, size)
            with Worker(self, f"requests-{size}", self.proxy.url, 8):
                # The worker's requests at its start must not count.
                time.sleep(2)
                before = json.loads(self.proxy.ask("/-/requests"))
                self.jobs(names)
                time.sleep(1)
                after = json.loads(self.proxy.ask("/-/requests"))
            found = {kind: after[kind] - before.get(kind, 0) for kind in after if after[kind] > before.get(kind, 0)}
            print(f"  {count} of {size >> 10} KiB: {sum(found.values()) / count:.2f} requests each, {found}", flush=True)

    def memory(self):
        """50 jobs, slow enough that all of them run at the same time."""
        names = [f"m{n}" for n in range(50)]
        for name in names:
            self.file(name, 24 << 20)
        for limit in self.options.memory:
            with Worker(self, "memory-" + limit, self.endpoint, 50, "--store-memory", limit,
                        "--connections-per-host", "50") as worker:
                seconds = self.jobs(names, "/slow/")
                print(f"  50 jobs of 24 MiB at once, --store-memory {limit}: {worker.most_memory} MiB resident at most, "
                      f"{seconds:.1f} s", flush=True)

    # Helpers.

    def file(self, name, size):
        with open(f"{self.work}/www/{name}", "wb") as file:
            for _ in range(0, size, 1 << 20):
                file.write(os.urandom(min(size, 1 << 20)))

    def in_order(self, turn):
        """The programs begin the turns alternately."""
        programs = [*self.options.tools, "haul"]
        turn %= len(programs)
        return programs[turn:] + programs[:turn]

    def check(self, key, name):
        """Fails unless the object has the file's bytes."""
        with open(f"{self.work}/www/{name}", "rb") as file:
            if self.s3.get(key) != file.read():
                raise RuntimeError(f"the object {key} is not what was sent")

    def run(self, *command):
        # What was written before must not be work beside the command.
        os.sync()
        began = time.monotonic()
        subprocess.run(command, check=True, env=self.environment, stdout=subprocess.DEVNULL)
        return time.monotonic() - began

    def copy(self, tool, file, key):
        destination = f"s3://test/{key}-{tool}"
        return {
            "aws": ["aws", "--endpoint-url", self.endpoint, "s3", "cp", "--quiet", file, destination],
            "s5cmd": ["s5cmd", "--endpoint-url", self.endpoint, "cp", file, destination],
            "rclone": ["rclone", "copyto", file, ":s3:" + destination[5:], "--s3-provider", "Other", "--s3-env-auth",
                       "--s3-endpoint", self.endpoint, "--s3-no-check-bucket"],
        }[tool]

    def copy_all(self, tool, folder, key):
        destination = f"s3://test/{key}-{tool}/"
        return {
            "aws": ["aws", "--endpoint-url", self.endpoint, "s3", "cp", "--quiet", "--recursive", folder, destination],
            "s5cmd": ["s5cmd", "--endpoint-url", self.endpoint, "cp", folder + "/", destination],
            "rclone": ["rclone", "copy", folder, ":s3:" + destination[5:], "--transfers", "64", "--s3-provider", "Other", "--s3-env-auth",
                       "--s3-endpoint", self.endpoint, "--s3-no-check-bucket"],
        }[tool]

    def jobs(self, names, prefix="/"):
        """The seconds from the first push until all jobs are completed."""
        stamp = str(time.monotonic_ns())
        elements = [json.dumps({"url": self.url + prefix + name, "id": stamp + name, "path": name,
                                "if_exists": "overwrite"}) for name in names]
        os.sync()
        before, began = self.redis.call("ZCARD", Q + "completed"), time.monotonic()
        self.redis.call("LPUSH", Q + "jobs", *elements)
        while self.redis.call("ZCARD", Q + "completed") < before + len(names):
            if self.redis.call("ZCARD", Q + "failed") or time.monotonic() - began > 280:
                raise RuntimeError("a job failed, or took too long")
            time.sleep(0.02)
        return time.monotonic() - began


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("haul", help="the program under test")
    parser.add_argument("--server", choices=["rgw", "weed"], default="weed")
    parser.add_argument("--parts", nargs="*", default=["speed", "small", "requests", "memory"])
    parser.add_argument("--tools", nargs="+", default=["aws", "s5cmd", "rclone"])
    parser.add_argument("--size", type=int, default=2048, help="of the large file: MiB")
    parser.add_argument("--count", type=int, default=2000, help="of small files")
    parser.add_argument("--memory", nargs="+", default=["256M"], help="of --store-memory: 64M is slow")
    parser.add_argument("--repeat", type=int, default=1)
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    with tempfile.TemporaryDirectory(prefix="haul-bucket-") as work:
        bench = Bench(options, work)
        try:
            bench.go()
        finally:
            bench.stop()


if __name__ == "__main__":
    main()
