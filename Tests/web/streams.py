"""What many streams with searches cost `haul web`: 200 streams of four viewers, each with six of twelve searches.

  Tests/web/run.sh HAUL --streams [--jobs N] [--seconds N]

Jobs wait in the queue, of which each search scans a part. The server refuses what is more than its quota.
"""

import argparse
import pathlib
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.parse
import urllib.request

from bench import Bench

sys.path.append(str(pathlib.Path(__file__).parent.parent / "bench"))
import results

VIEWERS, STREAMS, SEARCHES = 4, 50, 6
GOAL = 15


def account(haul, name):
    """The line of a viewer for --auth, and the token."""
    made = subprocess.run([haul, "web", "hash-password", name, "--token"], capture_output=True, text=True, check=True)
    return made.stdout, made.stderr.split()[-1]


def read(bench, token, number, opened, refused, end):
    searches = [f"queues/default/jobs?state=queued&limit=100&q={word % 12:x}{word % 12:x}" for word in range(number, number + SEARCHES)]
    request = urllib.request.Request(
        f"http://127.0.0.1:{bench.port}/api/live?{urllib.parse.urlencode([('watch', search) for search in searches])}",
        headers={"Authorization": f"Bearer {token}"})
    try:
        with urllib.request.urlopen(request, timeout=60) as stream:
            opened.append(number)
            while not end.is_set() and stream.read1(65_536):
                pass
    except urllib.error.HTTPError as error:
        refused.append(error.code)
    except OSError as error:
        print(f"a stream ended: {error}", flush=True)
    finally:
        if number in opened and not end.is_set():
            opened.remove(number)


def ticks(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return int(fields[11]) + int(fields[12])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("haul")
    parser.add_argument("--jobs", type=int, default=100_000)
    parser.add_argument("--seconds", type=float, default=20)
    options = parser.parse_args()
    bench = Bench(options.haul)
    end = threading.Event()
    try:
        bench.redis("--pipe", text="".join(
            f'LPUSH haul:{{default}}:jobs \'{{"url":"http://host{number % 7}.example/{number:x}.bin","id":"waits-{number}"}}\'\n'
            for number in range(options.jobs)))
        accounts = [account(options.haul, f"viewer{number}") for number in range(VIEWERS)]
        file = bench.directory / "accounts"
        file.write_text("".join(line for line, _ in accounts))
        bench.serve_queues(["default"], "--auth", str(file))
        opened, refused = [], []
        readers = [
            threading.Thread(target=read, args=(bench, token, number, opened, refused, end), daemon=True)
            for number in range(STREAMS) for _, token in accounts]
        for reader in readers:
            reader.start()
        deadline = time.monotonic() + 60
        while len(opened) + len(refused) < len(readers) and time.monotonic() < deadline:
            time.sleep(0.1)
        time.sleep(3)
        before, spent, begun = ticks(bench.web.pid), bench.spent(), time.monotonic()
        time.sleep(options.seconds)
        seconds = time.monotonic() - begun
        alive = len(opened)
        web, redis = (ticks(bench.web.pid) - before) / seconds, 100 * (bench.spent() - spent) / seconds
        print(f"{alive} streams of {VIEWERS} viewers with {SEARCHES} searches each, {len(refused)} refused ({sorted(set(refused))}): haul web "
              f"{web:.1f} % of a core and {bench.resident(bench.web):.0f} MB, Redis {redis:.1f} %", flush=True)
        # The server ends single ones, because what waits for the clients of one network is bounded.
        if alive < 150:
            raise SystemExit("too few streams were accepted")
        results.keep("streams", f"`haul web` with {alive} streams of {VIEWERS} viewers, each with {SEARCHES} searches", "% of a core",
                     [web], goal=GOAL)
    finally:
        end.set()
        bench.close()


main()
