"""Measures a fleet under the queue's rate limit every second, and draws a plot. rate_leases.sh starts this script."""

import argparse
import json
import os
import random
import signal
import socket
import socketserver
import subprocess
import sys
import tempfile
import threading
import time

HOST = "127.0.0.1"
# The seconds over which the limit must hold.
WINDOW = 10


class Origin(socketserver.ThreadingTCPServer):
    """Sends as many bytes as a path says, and counts the bytes that the workers' kernels have received."""

    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 128

    def __init__(self):
        super().__init__((HOST, 0), Answer)
        self.sent = 0
        self.lock = threading.Lock()

    def handle_error(self, request, client_address):
        """Ignores the broken connections of a killed worker."""


class Answer(socketserver.StreamRequestHandler):
    block = bytes(64 << 10)

    def handle(self):
        # Bytes in buffers are not yet received, so the buffers are small.
        self.request.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 64 << 10)
        while True:
            line = self.rfile.readline()
            if not line:
                return
            while self.rfile.readline() not in (b"\r\n", b""):
                pass
            left = int(line.split()[1].rsplit(b"/", 1)[1])
            self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % left)
            while left > 0:
                count = self.request.send(self.block[: min(left, len(self.block))])
                left -= count
                with self.server.lock:
                    self.server.sent += count


class Bench:
    def __init__(self, options):
        self.options = options
        self.folder = tempfile.TemporaryDirectory(prefix="haul-rate-leases-")
        self.socket = os.path.join(self.folder.name, "redis")
        self.url = "unix://" + self.socket
        self.processes = []
        self.origin = Origin()
        threading.Thread(target=self.origin.serve_forever, daemon=True).start()
        self.start("redis-server", "--port", "0", "--unixsocket", self.socket, "--save", "", "--dir", self.folder.name)
        while not os.path.exists(self.socket) or self.redis("PING") != "PONG":
            time.sleep(0.05)
        self.redis("HSET", "haul:{default}:settings", "rate", str(options.rate))
        self.number, self.limited = 0, set()

    def start(self, *arguments):
        process = subprocess.Popen(arguments, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.processes.append(process)
        return process

    def redis(self, *arguments):
        result = subprocess.run(
            ["redis-cli", "-s", self.socket, *arguments], capture_output=True, text=True, check=False)
        return result.stdout.strip()

    def worker(self, name, slots):
        root = os.path.join(self.folder.name, "root")
        os.makedirs(root, exist_ok=True)
        return self.start(
            self.options.haul, "worker", "--redis", self.url, "--root", root, "--name", name, "--slots", str(slots),
            "--allow-address", "127.0.0.0/8", "--durability", "process", "--connections", "1", "--lease", "4")

    def feed(self, generator):
        """Keeps some jobs waiting. Most could use more than the limit, and others have a low limit of their own."""
        while int(self.redis("LLEN", "haul:{default}:jobs") or 0) < 6:
            self.number += 1
            job = {
                "url": "http://%s:%d/%d/%d" % (HOST, self.origin.server_address[1], self.number, generator.choice([5, 20, 60]) << 20),
                "id": "s%d" % self.number, "path": "f%d" % (self.number % 64), "if_exists": "overwrite"}
            if generator.random() < 0.3:
                job["limit_rate"] = generator.choice([1, 4, 10]) << 20
                self.limited.add(job["id"])
            self.redis("LPUSH", "haul:{default}:jobs", json.dumps(job))

    def wants_all(self):
        """Whether a job without a limit of its own runs, so that the whole limit could be used."""
        running = self.redis("ZRANGE", "haul:{default}:leases", "0", "-1").split("\n")
        return any(id and id not in self.limited for id in running)

    def leases(self):
        """The rate that each process may use, by its worker's name."""
        pairs = self.redis("HGETALL", "haul:{default}:rate_leases").split("\n")
        held = {pairs[n]: pairs[n + 1].split() for n in range(0, len(pairs) - 1, 2)}
        result = {}
        for name in ("first", "second", "third"):
            instance = self.redis("HGET", "haul:{default}:worker:" + name, "instance")
            if instance in held:
                result[name] = int(held[instance][1])
        return result

    def close(self):
        for process in self.processes:
            if process.poll() is None:
                process.send_signal(signal.SIGKILL)
            process.wait()
        self.origin.shutdown()
        self.folder.cleanup()


def measure(bench, options):
    generator = random.Random(options.seed)
    bench.feed(generator)
    first, _ = bench.worker("first", 2), bench.worker("second", 5)
    time.sleep(5)
    rows, events = [], []
    begun, before = time.monotonic(), bench.origin.sent
    for second in range(options.seconds):
        if second == options.seconds // 3:
            first.send_signal(signal.SIGKILL)
            events.append((second, "first is killed"))
        if second == options.seconds * 2 // 3:
            bench.worker("third", 4)
            events.append((second, "third joins"))
        bench.feed(generator)
        leases, wanted = bench.leases(), bench.wants_all()
        time.sleep(max(0, begun + second + 1 - time.monotonic()))
        sent = bench.origin.sent
        rows.append((sent - before, leases, wanted and bench.wants_all()))
        before = sent
    return rows, events


STYLE = """
text{fill:#333;font:12px sans-serif} rect{fill:#fff} polyline{fill:none;stroke-linejoin:round} .grid{stroke:#e4e4e4} .event{stroke:#888;stroke-dasharray:2 3}
rect.idle{fill:#eee} .limit{stroke:#c22;stroke-width:1.5;stroke-dasharray:6 4} .second{stroke:#58c} .mean{stroke:#013;stroke-width:2.5}
.a{stroke:#2a8a5a;stroke-width:1.5} .b{stroke:#c07a10;stroke-width:1.5} .c{stroke:#8a4fd0;stroke-width:1.5}
@media (prefers-color-scheme:dark){text{fill:#ccc} rect{fill:#181a1c} .grid{stroke:#333} .limit{stroke:#f66} rect.idle{fill:#2a2d30} .second{stroke:#69d} .mean{stroke:#fff}
.a{stroke:#5fc795} .b{stroke:#e8a848} .c{stroke:#b98cf0}}
"""
CLASSES = {"first": "a", "second": "b", "third": "c"}


def draw(rows, means, events, rate):
    """The plot as SVG: the bytes of each second, their means over 10 s, the workers' rate leases, and when no job could use
    the whole limit."""
    width, height, left, top, bottom = 900, 400, 50, 40, 70
    highest = max([rate * 1.2] + [row[0] for row in rows])
    x = lambda second: left + (width - left - 20) * second / len(rows)
    y = lambda value: top + (height - top - bottom) * (1 - value / highest)
    parts = ['<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d">' % (width, height), "<style>%s</style>" % STYLE,
             "<title>A fleet under a limit of rate</title>", '<rect width="%d" height="%d"/>' % (width, height)]

    for second, row in enumerate(rows):
        if not row[2]:
            parts.append('<rect class="idle" x="%.1f" y="%d" width="%.1f" height="%d"/>' % (x(second), top, x(1) - x(0) + 0.2, height - top - bottom))

    def line(points, kind):
        parts.append('<polyline class="%s" points="%s"/>' % (kind, " ".join("%.0f,%.1f" % point for point in points)))

    def text(at, to, words, anchor="start"):
        parts.append('<text x="%.0f" y="%.0f" text-anchor="%s">%s</text>' % (at, to, anchor, words))

    for step in range(0, int(highest / 1e6) + 1, 10):
        line([(left, y(step * 1e6)), (width - 20, y(step * 1e6))], "grid")
        text(left - 6, y(step * 1e6) + 4, "%d" % step, "end")
    text(left - 6, top - 14, "MB/s", "end")
    for second in range(0, len(rows) + 1, 10):
        text(x(second), height - bottom + 18, "%d s" % second, "middle")
    for second, words in events:
        line([(x(second), top - 8), (x(second), height - bottom)], "event")
        text(x(second) + 4, top, words)
    line([(left, y(rate)), (width - 20, y(rate))], "limit")
    for name, kind in CLASSES.items():
        # A missing rate lease interrupts the line.
        run = []
        for second, (_, leases, _) in enumerate(rows + [(0, {}, True)]):
            if name in leases:
                run.append((x(second), y(leases[name])))
            elif run:
                line(run, kind)
                run = []
    line([(x(n + 0.5), y(row[0])) for n, row in enumerate(rows)], "second")
    line([(x(n + WINDOW), y(mean)) for n, mean in enumerate(means)], "mean")
    legend = [("in each second", "second"), ("mean of %d s" % WINDOW, "mean"), ("the limit", "limit")]
    legend += [("leased to " + name, kind) for name, kind in CLASSES.items()]
    for n, (words, kind) in enumerate(legend):
        line([(left + n * 140, height - 24), (left + n * 140 + 22, height - 24)], kind)
        text(left + n * 140 + 28, height - 20, words)
    return "\n".join(parts + ["</svg>", ""])


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("haul")
    parser.add_argument("--rate", type=int, default=50_000_000, help="bytes per second of the whole fleet")
    parser.add_argument("--seconds", type=int, default=120)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--svg", help="where the plot goes")
    options = parser.parse_args()
    if not 12 <= options.seconds <= 600:
        parser.error("--seconds is from 12 to 600")
    bench = Bench(options)
    try:
        rows, events = measure(bench, options)
    finally:
        bench.close()
    means = [sum(row[0] for row in rows[n:n + WINDOW]) / WINDOW for n in range(len(rows) - WINDOW + 1)]
    if options.svg:
        with open(options.svg, "w", encoding="utf-8") as file:
            file.write(draw(rows, means, events, options.rate))
    worst, lowest = max(means) / options.rate, min(means) / options.rate
    print("limit %.1f MB/s; worst %d s: %.3f of it; lowest %d s: %.3f; worst second: %.3f; mean: %.3f" % (
        options.rate / 1e6, WINDOW, worst, WINDOW, lowest, max(row[0] for row in rows) / options.rate,
        sum(row[0] for row in rows) / len(rows) / options.rate))
    wanted = [row[0] for row in rows if row[2]]
    print("in %d of %d seconds a job without a limit of its own ran all the time: %.3f of the limit was used in them" % (
        len(wanted), len(rows), sum(wanted) / max(len(wanted), 1) / options.rate))
    if lowest == 0:
        sys.exit("no bytes were received for %d s: is %s a build of haul?" % (WINDOW, options.haul))
    sys.exit(0 if worst <= 1.05 else 1)


if __name__ == "__main__":
    main()
