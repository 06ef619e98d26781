"""Measures a fleet under the queue's limit of rate, every second, and draws it. See shares.sh."""

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

HOSTS = "127.0.0.1"


class Origin(socketserver.ThreadingTCPServer):
    """Sends as many bytes as a path says, and counts what the workers' kernels have taken."""

    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 128

    def __init__(self):
        super().__init__((HOSTS, 0), Answer)
        self.sent = 0
        self.lock = threading.Lock()

    def handle_error(self, request, client_address):
        """A worker that is killed breaks its connections."""


class Answer(socketserver.StreamRequestHandler):
    block = bytes(64 << 10)

    def handle(self):
        # What waits in buffers is not yet received: they are kept small.
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
        self.folder = tempfile.TemporaryDirectory(prefix="haul-shares-")
        self.socket = os.path.join(self.folder.name, "redis")
        self.url = "unix://" + self.socket
        self.processes = []
        self.origin = Origin()
        threading.Thread(target=self.origin.serve_forever, daemon=True).start()
        self.start("redis-server", "--port", "0", "--unixsocket", self.socket, "--save", "", "--dir", self.folder.name)
        while not os.path.exists(self.socket) or self.redis("PING") != "PONG":
            time.sleep(0.05)
        self.redis("HSET", "haul:{default}:settings", "rate", str(options.rate))
        self.number = 0

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
            "--allow-address", "127.0.0.0/8", "--durability", "none", "--connections", "1", "--lease", "4")

    def feed(self, generator):
        """Keeps some jobs in line: most could use more than there is, others ask for little."""
        while int(self.redis("LLEN", "haul:{default}:jobs") or 0) < 6:
            self.number += 1
            job = {
                "url": "http://%s:%d/%d/%d" % (HOSTS, self.origin.server_address[1], self.number, generator.choice([5, 20, 60]) << 20),
                "id": "s%d" % self.number, "path": "f%d" % (self.number % 64), "if_exists": "overwrite"}
            if generator.random() < 0.5:
                job["limit_rate"] = generator.choice([1, 4, 10]) << 20
            self.redis("LPUSH", "haul:{default}:jobs", json.dumps(job))

    def shares(self):
        """What each process may be using, by its worker's name."""
        pairs = self.redis("HGETALL", "haul:{default}:shares").split("\n")
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
        shares = bench.shares()
        time.sleep(max(0, begun + second + 1 - time.monotonic()))
        sent = bench.origin.sent
        rows.append((sent - before, shares))
        before = sent
    return rows, events


def draw(rows, events, rate):
    width, height, left, top = 900, 360, 60, 20
    most = max([rate * 1.2] + [row[0] for row in rows])
    x = lambda second: left + (width - left - 20) * second / len(rows)
    y = lambda value: top + (height - top - 60) * (1 - value / most)
    colours = {"first": "#7a9", "second": "#c95", "third": "#97c"}
    parts = ['<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="12">' % (width, height),
             '<rect width="%d" height="%d" fill="white"/>' % (width, height)]

    def line(points, colour, stroke, dash=""):
        text = " ".join("%.1f,%.1f" % point for point in points)
        parts.append('<polyline points="%s" fill="none" stroke="%s" stroke-width="%s"%s/>' % (text, colour, stroke, dash))

    def text(at, to, words, colour="#333", anchor="start"):
        parts.append('<text x="%.1f" y="%.1f" fill="%s" text-anchor="%s">%s</text>' % (at, to, colour, anchor, words))

    for step in range(0, int(most / 1e6) + 1, 10):
        line([(left, y(step * 1e6)), (width - 20, y(step * 1e6))], "#eee", 1)
        text(left - 6, y(step * 1e6) + 4, "%d" % step, anchor="end")
    text(left, top - 6, "MB/s")
    for second in range(0, len(rows) + 1, 10):
        text(x(second), height - 44, "%d s" % second, anchor="middle")
    line([(left, y(rate)), (width - 20, y(rate))], "#c33", 1.5, ' stroke-dasharray="6 4"')
    for name, colour in colours.items():
        run = []
        for second, (_, shares) in enumerate(rows):
            if name in shares:
                run.append((x(second + 0.5), y(shares[name])))
        if run:
            line(run, colour, 1.5)
    line([(x(n + 0.5), y(row[0])) for n, row in enumerate(rows)], "#27c", 1)
    means = [sum(row[0] for row in rows[n - 9:n + 1]) / 10 for n in range(9, len(rows))]
    line([(x(n + 10), y(mean)) for n, mean in enumerate(means)], "#013", 2.5)
    for second, words in events:
        line([(x(second), top), (x(second), height - 60)], "#999", 1, ' stroke-dasharray="2 3"')
        text(x(second) + 4, top + 12, words)
    legend = [("received in a second", "#27c"), ("mean of 10 s", "#013"), ("the limit", "#c33")]
    legend += [("share of " + name, colour) for name, colour in colours.items()]
    for n, (words, colour) in enumerate(legend):
        text(left + n * 135, height - 16, words, colour)
    return "\n".join(parts + ["</svg>", ""]), means


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
    plot, means = draw(rows, events, options.rate)
    if options.svg:
        with open(options.svg, "w", encoding="utf-8") as file:
            file.write(plot)
    worst, least = max(means) / options.rate, min(means) / options.rate
    print("limit %.1f MB/s; over any 10 s between %.1f %% and %.1f %% of it; in one second at most %.1f %%" % (
        options.rate / 1e6, 100 * least, 100 * worst, 100 * max(row[0] for row in rows) / options.rate))
    sys.exit(0 if worst <= 1.05 else 1)


if __name__ == "__main__":
    main()
