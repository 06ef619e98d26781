"""What downloads cost, beside other programs in the same run: the CPU time of 500 small files and of one large file, and,
if they are named, the rows of docs/evaluate/performance.md that need no network.

  cost.py HAUL DIRECTORY [files|large|jobs|commands|tiny|calls|memory|small_jobs|neighbour]…      started by run.sh

`files` and `large` compare only CPU time (getrusage, user and system). On a busy machine it says more than elapsed time.
HAUL_BEFORE may name another build of haul. HAUL_PEER may name the C source of another downloader, whose arguments are
the URL, the file and HAUL_PEER_OPTIONS. DIRECTORY needs about 3 GB.
"""
import os
import shutil
import statistics
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "chaos"))
import commands
import results
from processes import Process, RedisServer, Worker
from resp import Redis
from stores import Directory

ROUNDS = 5
FILES, FILE_SIZE, PARALLEL = 500, 50_000, 50
LARGE_SIZE = 1 << 30
TINY, TINY_SIZE = 10_000, 1000
SMALL, SMALL_SIZE = 2000, 10 << 10
JOBS = 8000
MANY_AT_ONCE = {
    "curl": ["curl", "-s", "-Z", "--parallel-max", str(PARALLEL), "-K", "{config}"],
    "wget2": ["wget2", "-q", "--no-config", "--max-threads", str(PARALLEL), "-i", "{urls}"],
    "aria2": ["aria2c", "-q", "--no-conf", "-x16", "-j", str(PARALLEL), "--file-allocation=none", "-i", "{urls}"],
}

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
        self.turn = 0
        self.running = []

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
        for process in [*self.running, self.nginx]:
            if process.is_up:
                process.end(15)

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

    def make(self, name, count, size):
        """Writes random files and their lists, and returns their URLs."""
        os.makedirs(f"{self.directory}/www/{name}")
        for number in range(count):
            with open(f"{self.directory}/www/{name}/{number}", "wb") as file:
                file.write(os.urandom(size))
        urls = [self.url("http", f"{name}/{number}") for number in range(count)]
        with open(f"{self.directory}/urls", "w") as plain, open(f"{self.directory}/config", "w") as config:
            plain.writelines(f"{url}\n" for url in urls)
            config.writelines(f'url="{url}"\nremote-name\n' for url in urls)
        return urls

    def peer(self, name):
        return [word.format(config=f"{self.directory}/config", urls=f"{self.directory}/urls") for word in MANY_AT_ONCE[name]]

    def next_folder(self):
        """A new folder. Nothing is deleted between the turns: ext4 passes over each inode that has become free in the last
        minutes, which makes whoever creates files then several times slower."""
        self.turn += 1
        folder = f"{self.directory}/turn-{self.turn}"
        os.mkdir(folder)
        return folder

    def in_turn(self, command, source, folder=None):
        """Runs a command in a folder of its own, whose files must then be those of `source`. Returns the folder, the
        seconds and the CPU seconds."""
        folder = folder or self.next_folder()
        os.sync()
        begun = time.monotonic()
        child = subprocess.Popen(
            command, cwd=folder, env=os.environ | {"XDG_STATE_HOME": folder + ".state"}, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL)
        _, status, usage = os.wait4(child.pid, 0)
        seconds = time.monotonic() - begun
        child.returncode = os.waitstatus_to_exitcode(status)
        if child.returncode != 0 or not is_same(f"{self.directory}/www/{source}", folder):
            raise SystemExit(f"failed ({child.returncode}), or its files are not right: {' '.join(command)[:200]}")
        return folder, seconds, usage.ru_utime + usage.ru_stime

    def start_worker(self, folder, *options, build=None):
        """A worker with a Redis of its own. Returns its process, the server and a connection."""
        directory = self.next_folder()
        redis = RedisServer(directory, "redis")
        worker = Worker(build or self.haul, None, directory, "bench", redis.url, Directory(folder), 1, 10, 8)
        # Without --slots it has its default.
        at = worker.command.index("--slots")
        del worker.command[at:at + 2]
        worker.command += options
        self.running = [worker, redis]
        redis.start()
        os.sync()
        worker.start()
        self.until(worker, lambda: worker.has_logged("working"))
        return worker, redis, Redis(redis.socket, 30)

    @staticmethod
    def until(worker, condition, within=120):
        deadline = time.monotonic() + within
        while not condition():
            if not worker.is_up or time.monotonic() > deadline:
                raise SystemExit("the worker has ended, or is too slow: see " + worker.log)
            time.sleep(0.005)

    # The measurements.

    def tiny(self):
        """10,000 files of 1 KB, and the same command again, when nothing has changed."""
        urls = self.make("tiny", TINY, TINY_SIZE)
        get = [self.haul, "get", "-q", "--durability", "process", *urls]
        seconds, cpu, again = {name: [] for name in ["haul", *MANY_AT_ONCE]}, {name: [] for name in ["haul", *MANY_AT_ONCE]}, []
        names = list(seconds)
        for turn in range(3):
            for name in names[turn:] + names[:turn]:
                folder, took, spent = self.in_turn(get if name == "haul" else self.peer(name), "tiny")
                seconds[name].append(took)
                cpu[name].append(spent * 1e6 / TINY)
                if name == "haul":
                    again.append(self.in_turn(get, "tiny", folder)[1])
        for name in seconds:
            print(f"{TINY} files of 1 KB: {name} {statistics.median(seconds[name]):.2f} s, {statistics.median(cpu[name]):.0f} µs of CPU each",
                  flush=True)
        print(f"the same again, unchanged: haul {statistics.median(again):.2f} s", flush=True)
        own, own_cpu = seconds.pop("haul"), cpu.pop("haul")
        results.keep("tiny", "10,000 files of 1 KB on one machine, not synced", "s", own, seconds)
        results.keep("tiny-again", "the same again, unchanged: to reach is the time of the download", "s", again,
                     goal=float(f"{statistics.median(own):.3g}"))
        results.keep("tiny-cpu", "CPU time of `haul get` for one of these files", "µs", own_cpu, cpu, goal=100)

    def calls(self):
        """System calls for each small file, over the difference between 2,000 and 1,000 of them: without start and end."""
        urls = self.make("calls", SMALL, TINY_SIZE)
        counts = {}
        for name in ["haul", *MANY_AT_ONCE]:
            found = []
            for count in (SMALL // 2, SMALL):
                with open(f"{self.directory}/urls", "w") as plain, open(f"{self.directory}/config", "w") as config:
                    plain.writelines(f"{url}\n" for url in urls[:count])
                    config.writelines(f'url="{url}"\nremote-name\n' for url in urls[:count])
                command = [self.haul, "get", "-q", "--durability", "process", *urls[:count]] if name == "haul" else self.peer(name)
                folder = self.next_folder()
                subprocess.run(["strace", "-f", "-c", "-o", f"{self.directory}/calls", *command], cwd=folder, check=True,
                               env=os.environ | {"XDG_STATE_HOME": folder + ".state"}, capture_output=True)
                if len([each for each in os.listdir(folder) if not each.startswith(".")]) != count:
                    raise SystemExit(f"{name} has not downloaded all files")
                with open(f"{self.directory}/calls") as file:
                    found.append(next(int(line.split()[3 if len(line.split()) > 4 else 2]) for line in file if line.endswith("total\n")))
            counts[name] = [(found[1] - found[0]) / (SMALL // 2)]
            print(f"system calls for a small file: {name} {counts[name][0]:.1f}", flush=True)
        results.keep("calls", "system calls of `haul get` for a small file", "", counts.pop("haul"), counts, goal=20)

    def memory(self):
        """The most resident memory, for a file of 520 bytes and for 1 GiB. `time` starts the programs, because a child
        of this process would begin with its memory."""
        for name, size, about, goal in (("memory-small", 520, "most memory of `haul get`, a file of 520 bytes", 16),
                                        ("memory-large", LARGE_SIZE, "most memory of `haul get`, 1 GiB", 24)):
            self.fill(name, size)
            url, most = self.url("http", name), {}
            for _ in range(3):
                for program, command in {
                        "haul": [self.haul, "get", "-q", "-o", "f", url], "curl": ["curl", "-s", "-o", "f", url],
                        "wget2": ["wget2", "-q", "--no-config", "-O", "f", url],
                        "aria2": ["aria2c", "-q", "--no-conf", "-x16", "--file-allocation=none", "-o", "f", url]}.items():
                    folder = self.fresh()
                    subprocess.run(["/usr/bin/time", "-f", "%M", "-o", f"{self.directory}/most", *command], cwd=folder, check=True,
                                   env=os.environ | {"XDG_STATE_HOME": f"{self.directory}/state"}, stdout=subprocess.DEVNULL)
                    subprocess.run(["cmp", "-s", f"{self.directory}/www/{name}", f"{folder}/f"], check=True)
                    with open(f"{self.directory}/most") as file:
                        most.setdefault(program, []).append(int(file.read()) * 1024 / 1e6)
            print(f"{about}: " + ", ".join(f"{program} {statistics.median(values):.1f} MB" for program, values in most.items()), flush=True)
            results.keep(name, about, "MB", most.pop("haul"), most, goal=goal)
            os.unlink(f"{self.directory}/www/{name}")

    def small_jobs(self):
        """2,000 small files by a worker, with its defaults and with one slot, beside curl."""
        urls = self.make("small_jobs", SMALL, SMALL_SIZE)
        one_by_one = ["curl", "-s", "-K", f"{self.directory}/config"]
        for name, about, options, peers in (
                ("worker", "2,000 files of 10 KiB by a worker with its defaults, not synced", [], MANY_AT_ONCE),
                ("worker-1", "the same with one slot", ["--slots", "1"], {"curl": one_by_one})):
            own, others = [], {peer: [] for peer in peers}

            def measure_worker():
                folder = self.next_folder()
                worker, redis, connection = self.start_worker(folder, "--durability", "process", *options)
                begun = time.monotonic()
                connection.call("LPUSH", "haul:{default}:jobs", *('{"url":"%s"}' % url for url in urls))
                self.until(worker, lambda: connection.call("ZCARD", "haul:{default}:completed") == SMALL)
                own.append(time.monotonic() - begun)
                worker.end(15)
                redis.end(15)
                if not is_same(f"{self.directory}/www/small_jobs", folder):
                    raise SystemExit("the worker's files are not right: see " + worker.log)

            for turn in range(4):
                if turn % 2 == 0:
                    measure_worker()
                for peer in others:
                    others[peer].append(self.in_turn(one_by_one if options else self.peer(peer), "small_jobs")[1])
                if turn % 2:
                    measure_worker()
            print(f"{about}: haul {statistics.median(own):.2f} s, "
                  + ", ".join(f"{peer} {statistics.median(values):.2f} s" for peer, values in others.items()), flush=True)
            results.keep(name, about, "s", own, others)

    def jobs(self):
        """8,000 files of 100 bytes by a worker with 64 slots: what each job costs it and Redis, with both builds in turn."""
        urls = self.make("jobs", JOBS, 100)
        elements = ['{"url":"%s"}' % url for url in urls]
        names = [name.replace("haul get", "a worker") for name in self.builds]
        costs = {name: [] for name in names}
        for turn in range(2 * ROUNDS):
            for name, build in list(zip(names, self.builds.values()))[::-1 if turn % 2 else 1]:
                worker, redis, connection = self.start_worker(
                    self.next_folder(), "--durability", "process", "--slots", "64", "--connections-per-host", "64", build=build)
                spent, begun = (worker.cpu, redis.cpu), time.monotonic()
                connection.call("LPUSH", "haul:{default}:jobs", *elements)
                self.until(worker, lambda: connection.call("ZCARD", "haul:{default}:completed") == JOBS)
                costs[name].append((time.monotonic() - begun, worker.cpu - spent[0], redis.cpu - spent[1]))
                worker.end(15)
                redis.end(15)
        for name in names:
            seconds, own, others = (statistics.median(column) * 1e6 / JOBS for column in zip(*costs[name]))
            print(f"{JOBS} jobs of 100 bytes: {name}: {seconds:.1f} µs on the clock, {own:.1f} µs of the worker and {others:.1f} µs "
                  "of Redis each", flush=True)
        if len(names) == 2:
            pairs = zip(*(costs[name] for name in names))
            ratios = zip(*([now / before for now, before in zip(*pair)] for pair in pairs))
            print("after / before, medians of the pairs: clock, worker, Redis: "
                  + ", ".join(f"{statistics.median(column):.3f}" for column in ratios), flush=True)

    def commands(self):
        """What the commands of such a job cost Redis without the functions' own work."""
        costs = []
        for _ in range(ROUNDS):
            redis = RedisServer(self.next_folder(), "redis")
            self.running = [redis]
            redis.start()
            connection = Redis(redis.socket, 30)
            spent = redis.cpu
            count = commands.run(connection, JOBS)
            costs.append((redis.cpu - spent) * 1e6 / count)
            redis.end(15)
        print(f"the commands of a job of 100 bytes alone: {statistics.median(costs):.1f} µs of Redis each "
              f"({min(costs):.1f} to {max(costs):.1f})", flush=True)

    def neighbour(self):
        """What a program that writes a file of 1 GiB and syncs it loses, while a worker downloads small files and syncs
        them beside it. It is compared with a worker that does not sync, because both take processor time."""
        urls = self.make("beside", SMALL, SMALL_SIZE)
        seconds = {"process": [], "disk": []}
        for turn in range(7):
            for durability in ["process", "disk"] if turn % 2 else ["disk", "process"]:
                worker, redis, connection = self.start_worker(self.next_folder(), "--durability", durability)
                for part in range(20):
                    connection.call("LPUSH", "haul:{default}:jobs", *('{"url":"%s","path":"%d/"}' % (url, part) for url in urls))
                self.until(worker, lambda: connection.call("ZCARD", "haul:{default}:completed") >= 200)
                begun = time.monotonic()
                subprocess.run(["dd", "if=/dev/zero", f"of={self.directory}/neighbour", "bs=1M", "count=1024", "conv=fsync"],
                               check=True, capture_output=True)
                seconds[durability].append(time.monotonic() - begun)
                if connection.call("LLEN", "haul:{default}:jobs") == 0:
                    raise SystemExit("the worker had nothing more to do before its neighbour had written its file")
                worker.end(9)
                redis.end(15)
                os.unlink(f"{self.directory}/neighbour")
        lost = 100 * (statistics.median(seconds["disk"]) / statistics.median(seconds["process"]) - 1)
        print("  " + ", ".join(f"{what} {' '.join(f'{each:.2f}' for each in found)}" for what, found in seconds.items()))
        print(f"a neighbour that writes 1 GiB beside small files: {statistics.median(seconds['process']):.2f} s, and "
              f"{statistics.median(seconds['disk']):.2f} s while they are synced: {lost:+.0f} %", flush=True)
        results.keep("neighbour", "what `dd` of 1 GiB loses on the same disk, beside small files that a worker syncs", "%", [lost], goal=10)

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

    def fill(self, name, size):
        with open(f"{self.directory}/www/{name}", "wb") as file:
            for start in range(0, size, 1 << 20):
                file.write(os.urandom(min(size - start, 1 << 20)))

    def large(self):
        self.fill("large.bin", LARGE_SIZE)
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


def is_same(source, folder):
    """Whether the folder has the files of `source`, and no others but hidden ones."""
    return subprocess.run(["diff", "-rq", "--exclude=.*", source, folder], capture_output=True).returncode == 0


def main(haul, directory, *parts):
    bench = Bench(haul, directory)
    bench.start()
    try:
        for part in parts or ["files", "large"]:
            getattr(bench, part)()
    finally:
        bench.end()


main(*sys.argv[1:])
