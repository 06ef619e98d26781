"""Runs a small fleet under a load with failures, and a real Prometheus with our rules. See live.sh."""

import base64
import http.server
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse
import urllib.request

import yaml

DEPLOY = pathlib.Path(__file__).resolve().parents[1]
BIG = bytes(range(256)) * 4096
QUEUE = "haul:{default}:"


class Origin(http.server.BaseHTTPRequestHandler):
    """Serves /small and, slowly, /big. /missing gives a 404, /busy a 503."""

    protocol_version = "HTTP/1.1"

    def do_GET(self):
        body, status = b"", 200
        if self.path.startswith("/small"):
            body = b"x" * 5000
        elif self.path.startswith("/big"):
            body = BIG
        else:
            status = 503 if self.path.startswith("/busy") else 404
        first, last = 0, len(body) - 1
        asked = re.match(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
        if asked and status == 200 and int(asked[1]) < len(body):
            first, last = int(asked[1]), min(last, int(asked[2] or last))
            status = 206
        self.send_response(status)
        self.send_header("Content-Length", str(last - first + 1 if body else 0))
        if body:
            self.send_header("ETag", '"one"')
        if status == 206:
            self.send_header("Content-Range", f"bytes {first}-{last}/{len(body)}")
        self.end_headers()
        try:
            for start in range(first, last + 1, 16384):
                self.wfile.write(body[start : min(start + 16384, last + 1)])
                if body is BIG:
                    time.sleep(0.05)
        except OSError:
            pass

    def log_message(self, *_):
        pass


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_):
        """Prints nothing: connections of a killed worker fail."""


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def eventually(what, condition, seconds=60):
    end = time.monotonic() + seconds
    while True:
        result = condition()
        if result:
            return result
        if time.monotonic() > end:
            raise SystemExit(f"waited {seconds} s for {what}")
        time.sleep(0.25)


class Fleet:
    """As compose.yaml has it: Redis with our configuration and roles, passwords from files, workers and the page."""

    def __init__(self, haul, work):
        self.haul, self.work = haul, work
        self.processes = []
        self.redis = free_port()
        for directory in ("acl", "secrets", "root"):
            (work / directory).mkdir()
        printed = subprocess.run(
            [sys.executable, DEPLOY / "compose/passwords.py", "--acl", work / "acl", "--haul", work / "secrets",
             "--template", DEPLOY / "redis/users.acl", "--redis", f"127.0.0.1:{self.redis}"],
            check=True, stdout=subprocess.PIPE, text=True).stdout
        self.password = printed.split("password ")[1].split()[0]
        self.start("redis", "redis-server", str(DEPLOY / "redis/redis.conf"), "--aclfile", str(work / "acl/users.acl"),
                   "--port", str(self.redis), "--bind", "127.0.0.1", "--dir", str(work))
        eventually("Redis", lambda: self.operator("TIME"))
        subprocess.run([haul, "load-functions"], check=True, stdout=subprocess.DEVNULL, env=self.environment("deploy"))
        self.server = Server(("127.0.0.1", 0), Origin)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.origin = f"http://127.0.0.1:{self.server.server_port}"
        self.root = work / "root"
        self.ports = {name: free_port() for name in ("one", "two")}
        self.prometheus = free_port()
        self.page = free_port()
        self.start("web", haul, "web", "--listen", f"127.0.0.1:{self.page}", "--auth", str(work / "secrets/web/users"),
                   role="web")

    def environment(self, role):
        return {**os.environ, "HAUL_REDIS_FILE": str(self.work / "secrets" / role / "redis")}

    def start(self, name, *command, role="worker"):
        log = open(self.work / f"{name}.log", "a")
        process = subprocess.Popen(command, stdout=log, stderr=log, env=self.environment(role))
        self.processes.append(process)
        return process

    def worker(self, name):
        """Starts a worker. Both workers export the queue's metrics, as in a fleet without a single exporter."""
        return self.start(
            name, self.haul, "worker", "--name", name, "--root", str(self.root), "--slots", "6", "--lease", "2",
            "--allow-address", "127.0.0.0/8", "--http", f"127.0.0.1:{self.ports[name]}", "--export-queues",
        )

    def cli(self, role, *words):
        url = (self.work / "secrets" / role / "redis").read_text().strip()
        return subprocess.run(["redis-cli", "--no-auth-warning", "-u", url, *words], capture_output=True, text=True).stdout.strip()

    def operator(self, *words):
        return self.cli("operator", *words)

    def push(self, path, **fields):
        self.element(json.dumps({"url": self.origin + path, **fields}))

    def element(self, text):
        self.cli("producer", "LPUSH", QUEUE + "jobs", text)

    def sign_in(self, password):
        """The status of the page for the user that passwords.py made; None without an answer."""
        request = urllib.request.Request(f"http://127.0.0.1:{self.page}/")
        request.add_header("Authorization", "Basic " + base64.b64encode(f"admin:{password}".encode()).decode())
        try:
            return urllib.request.urlopen(request, timeout=10).status
        except urllib.error.HTTPError as error:
            return error.code
        except OSError:
            return None

    def watch(self):
        """Starts Prometheus with our configuration, but with this machine's addresses and seconds instead of minutes."""
        configuration = yaml.safe_load((DEPLOY / "prometheus/prometheus.yml").read_text())
        configuration["global"] = {"scrape_interval": "1s", "evaluation_interval": "1s"}
        (job,) = configuration["scrape_configs"]
        job.pop("dns_sd_configs")
        job["static_configs"] = [{"targets": [f"127.0.0.1:{port}" for port in self.ports.values()]}]
        (self.work / "prometheus.yml").write_text(yaml.safe_dump(configuration))
        rules = (DEPLOY / "prometheus/alerts.yml").read_text()
        rules = re.sub(r"\[(5|10|15|30)m\]", "[10s]", re.sub(r"for: \w+", "for: 1s", rules))
        (self.work / "alerts.yml").write_text(rules)
        self.start(
            "prometheus", "prometheus", f"--config.file={self.work}/prometheus.yml", f"--storage.tsdb.path={self.work}/data",
            f"--web.listen-address=127.0.0.1:{self.prometheus}", "--log.level=warn",
        )
        # It listens before it has read its database, and refuses queries with 503 meanwhile.
        eventually("Prometheus to be ready", self.is_ready)

    def is_ready(self):
        try:
            return urllib.request.urlopen(f"http://127.0.0.1:{self.prometheus}/-/ready", timeout=10).status == 200
        except OSError:
            return False

    def ask(self, query):
        text = urllib.parse.urlencode({"query": query})
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.prometheus}/api/v1/query?{text}", timeout=10) as answer:
                return json.load(answer)["data"]["result"]
        except urllib.error.HTTPError as error:
            raise SystemExit(f"{query}: {error.read().decode()}")
        except OSError:
            return None

    def firing(self):
        return {series["metric"]["alertname"] for series in self.ask('ALERTS{alertstate="firing"}') or []}

    def metrics(self, name):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.ports[name]}/metrics", timeout=10) as answer:
            return answer.read()

    def end(self):
        for process in reversed(self.processes):
            process.send_signal(signal.SIGCONT)
            process.terminate()
        for process in self.processes:
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()


def expressions():
    """Each query of the dashboard, with its variables replaced as Grafana does it."""
    dashboard = json.loads((DEPLOY / "grafana/haul.json").read_text())
    for panel in dashboard["panels"]:
        for target in panel.get("targets", []):
            text = target["expr"].replace("$__rate_interval", "10s").replace("[10m]", "[10s]")
            yield panel["title"], text.replace("$queue", ".*").replace("$instance", ".*")


def load(fleet):
    """Pushes jobs that complete, fail and are retried, and an element that is not a valid job."""
    for number in range(30):
        fleet.push(f"/small/{number}")
    for number in range(25):
        fleet.push(f"/missing/{number}")
    for number in range(6):
        fleet.push(f"/big/{number}", id=f"big{number}")
    fleet.push("/busy", id="busy", retries=20)
    fleet.element("nonsense")


def run(fleet):
    workers = {name: fleet.worker(name) for name in fleet.ports}
    eventually("both workers", lambda: fleet.operator("ZCARD", QUEUE + "workers") == "2")
    right = fleet.password
    eventually("the page", lambda: fleet.sign_in(right) == 200)
    if fleet.sign_in("wrong") != 401:
        raise SystemExit(f"the page says {fleet.sign_in('wrong')} to a wrong password")
    checked = subprocess.run(["promtool", "check", "metrics"], input=fleet.metrics("one"), capture_output=True)
    if checked.returncode:
        raise SystemExit(f"promtool check metrics: {checked.stderr.decode()}")
    fleet.watch()
    eventually("both to be scraped", lambda: len(fleet.ask("haul_slots") or []) == 2)
    print("quiet:", *(fleet.firing() or ["no alert"]))

    # Until each query has given data, for at most 40 rounds.
    missing = dict.fromkeys(expressions())
    rounds = 0
    while missing and rounds < 40:
        if rounds % 4 == 0:
            load(fleet)
        if rounds == 12:
            workers["two"].kill()
        if rounds == 16:
            workers["two"] = fleet.worker("two")
        for title, text in list(missing):
            series = fleet.ask(text)
            if series and any(one["value"][1] != "NaN" for one in series):
                del missing[title, text]
        rounds += 1
        time.sleep(1)
    for title, text in missing:
        print(f"no data: {title}: {text}")
    count = len(list(expressions()))
    print(f"{count - len(missing)} of {count} queries of the dashboard gave data, after {rounds} looks")

    expected = {"HaulJobsFail", "HaulJobsRejected"}
    eventually(f"{expected} to fire", lambda: (load(fleet), time.sleep(1), expected <= fleet.firing())[2])
    print("during the load:", *sorted(fleet.firing()))
    # Stop both workers. Both count as down, and the metrics of the queue are absent.
    for worker in workers.values():
        worker.send_signal(signal.SIGSTOP)
    expected = {"HaulWorkerDown", "HaulExporterAbsent"}
    # A stopped process accepts connections and sends nothing, so a scrape waits for its whole timeout.
    eventually(f"{expected} to fire", lambda: expected <= fleet.firing(), 90)
    print("workers stopped:", *sorted(fleet.firing()))
    for worker in workers.values():
        worker.send_signal(signal.SIGCONT)
    eventually("the alerts to clear", lambda: not fleet.firing() & (expected | {"HaulJobsRejected", "HaulQueueUnserved"}), 90)
    print("workers continued, load over:", *(sorted(fleet.firing()) or ["no alert"]))
    return not missing


def main():
    work = pathlib.Path(tempfile.mkdtemp())
    fleet = Fleet(sys.argv[1], work)
    is_right = False
    try:
        is_right = run(fleet)
    finally:
        fleet.end()
        if not is_right:
            for log in sorted(work.glob("*.log")):
                print(f"-- {log.name}", *log.read_text(errors="replace").splitlines()[-12:], sep="\n", file=sys.stderr)
        shutil.rmtree(work, ignore_errors=True)
    sys.exit(0 if is_right else 1)


main()
