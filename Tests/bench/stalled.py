"""A range that stalls: of sixteen connections the one that brings the fifth sixteenth of the file sends 99 % of it, and then
nothing more. The next request for the rest of it is answered.

    stalled.py HAUL DIRECTORY      started by run.sh

Compares `haul get -x 16` and aria2 -x16 with themselves at an origin where nothing stalls. Every connection gets 5 MB/s.
"""
import http.server
import os
import shutil
import statistics
import subprocess
import sys
import threading
import time

sys.path.append(os.path.dirname(__file__))
import results

SIZE, PACE, PIECE = 320_000_000, 5_000_000, 50_000
# The first response that reaches this byte ends before it.
STALL = SIZE // 16 * 4 + SIZE // 16 * 99 // 100
ROUNDS = 3


class Origin(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def __init__(self, content):
        super().__init__(("127.0.0.1", 0), Handler)
        self.content, self.lock = content, threading.Lock()
        self.begin(False)

    def begin(self, stalls):
        self.over = threading.Event()
        with self.lock:
            self.may_stall, self.has_stalled = stalls, False

    def stalls(self):
        """Whether the response that has come to the byte STALL stalls there: the first one of a turn does."""
        with self.lock:
            self.has_stalled, self.may_stall = self.has_stalled or self.may_stall, False
            return self.has_stalled


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_GET(self):
        server, range_ = self.server, self.headers.get("Range")
        first, last = 0, SIZE - 1
        if range_:
            first, end = range_.removeprefix("bytes=").split("-")
            first, last = int(first), int(end or SIZE - 1)
        length = last - first + 1
        over = server.over
        self.send_response(206 if range_ else 200)
        self.send_header("ETag", '"v1"')
        self.send_header("Accept-Ranges", "bytes")
        self.send_header("Content-Length", str(length))
        if range_:
            self.send_header("Content-Range", f"bytes {first}-{last}/{SIZE}")
        self.end_headers()
        begun = time.monotonic()
        try:
            for start in range(first, last + 1, PIECE):
                end = min(start + PIECE, last + 1)
                if start <= STALL < end and server.may_stall and server.stalls():
                    self.wfile.write(server.content[start:STALL])
                    over.wait()
                    self.close_connection = True
                    return
                self.wfile.write(server.content[start:end])
                time.sleep(max(0, begun + (end - first) / PACE - time.monotonic()))
        except OSError:
            self.close_connection = True


def main():
    haul, directory = os.path.abspath(sys.argv[1]), sys.argv[2]
    content = memoryview(os.urandom(SIZE))
    with open(f"{directory}/content", "wb") as file:
        file.write(content)
    origin = Origin(content)
    threading.Thread(target=origin.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{origin.server_address[1]}/f"
    commands = {
        "haul": [haul, "get", "-q", "-x", "16", "--durability", "process", "-o", "f", url],
        "aria2": ["aria2c", "-q", "--no-conf", "-x16", "-s16", "-k1M", "--file-allocation=none", "-o", "f", url],
    }
    longer = {name: [] for name in commands}
    for _ in range(ROUNDS):
        for name, command in commands.items():
            seconds = {}
            for stalls in (False, True):
                folder = f"{directory}/turn"
                shutil.rmtree(folder, ignore_errors=True)
                os.mkdir(folder)
                origin.begin(stalls)
                begun = time.monotonic()
                subprocess.run(command, cwd=folder, check=True, timeout=200, stdout=subprocess.DEVNULL,
                               env=os.environ | {"XDG_STATE_HOME": folder + "/.state"})
                seconds[stalls] = time.monotonic() - begun
                origin.over.set()
                subprocess.run(["cmp", "-s", f"{directory}/content", f"{folder}/f"], check=True)
                if stalls and not origin.has_stalled:
                    raise SystemExit(f"{name} has met no range that stalls")
            longer[name].append(seconds[True] - seconds[False])
            print(f"stalled: {name} {seconds[False]:.2f} s, {seconds[True]:.2f} s where one of its ranges stalls", flush=True)
    print("stalled: " + ", ".join(f"{name} {statistics.median(values):.2f} s longer" for name, values in longer.items()))
    results.keep("stalled", "one of 16 ranges stalls at 99 %: how much longer the download takes", "s", longer["haul"], goal=2)


main()
