#!/usr/bin/env python3
"""Runs `haul top` on terminals of four sizes, beside a queue with many jobs and real workers.

    Tests/bench/top.py .build/release/haul --running 1000 --queued 9000
    Tests/bench/top.py .build/release/haul --running 10000 --queued 0 --screens DIRECTORY  # screens as text; needs tmux

For each size it prints the number of frames, their bytes, how often the whole screen was cleared after the first frame,
the CPU time and memory of `haul top`, and the CPU time of Redis, first without `haul top` and then with it. The script
starts its own redis-server, an origin that sends a few bytes now and then, workers and terminals, all on loopback. Some
jobs fail, so that there are failures to show.
"""

import argparse
import asyncio
import fcntl
import json
import os
import pathlib
import pty
import resource
import select
import shutil
import signal
import statistics
import struct
import subprocess
import sys
import tempfile
import termios
import threading
import time

SIZES = [(80, 24), (120, 40), (200, 60), (40, 10)]
# A worker reserves the whole length on the disk.
LENGTH = 500_000
# The slots of one worker.
SLOTS = 1000


async def serve(reader, writer, pause):
    """Serves any file, a kilobyte at a time."""
    try:
        while True:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            if head.startswith("GET /gone"):
                writer.write(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
                continue
            first = 0
            for line in head.split("\r\n"):
                if line.lower().startswith("range: bytes="):
                    first = int(line.split("=")[1].split("-")[0])
            status = "206 Partial Content" if first else "200 OK"
            span = f"Content-Range: bytes {first}-{LENGTH - 1}/{LENGTH}\r\n" if first else ""
            writer.write(
                f'HTTP/1.1 {status}\r\nETag: "v1"\r\nAccept-Ranges: bytes\r\n{span}'
                f"Content-Length: {LENGTH - first}\r\n\r\n".encode())
            while first < LENGTH:
                writer.write(bytes(1000))
                await writer.drain()
                first += 1000
                await asyncio.sleep(pause)
    except (OSError, asyncio.IncompleteReadError):
        pass
    finally:
        writer.close()


def start_origin(pause):
    loop, ready = asyncio.new_event_loop(), threading.Event()
    port = []

    def run():
        asyncio.set_event_loop(loop)
        server = loop.run_until_complete(asyncio.start_server(lambda *ends: serve(*ends, pause), "127.0.0.1", 0, backlog=4096))
        port.append(server.sockets[0].getsockname()[1])
        ready.set()
        loop.run_forever()

    threading.Thread(target=run, daemon=True).start()
    ready.wait()
    return port[0]


def watch(haul, environment, columns, rows, seconds):
    """Runs `haul top` for some seconds. Returns its frames, its resource usage and its exit status."""
    child, terminal = pty.fork()
    if child == 0:
        os.execve(haul, [haul, "top"], environment)
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    os.kill(child, signal.SIGWINCH)
    frames, last = [], 0.0
    waiter = select.poll()
    waiter.register(terminal, select.POLLIN)
    end = time.time() + seconds
    while time.time() < end:
        if not waiter.poll(100):
            continue
        try:
            piece = os.read(terminal, 1 << 20)
        except OSError:
            break
        # A frame is written at once. Bytes that follow within 50 ms belong to the same frame.
        if frames and time.time() - last < 0.05:
            frames[-1] += piece
        else:
            frames.append(piece)
        last = time.time()
    os.write(terminal, b"q")
    _, status, usage = os.wait4(child, 0)
    os.close(terminal)
    return frames, usage, status


def screens(haul, environment, columns, rows, directory):
    """Runs `haul top` in tmux. Yields the list, a job's page and the help as text."""
    tmux = ["tmux", "-S", str(directory / "tmux"), "-f", "/dev/null"]
    subprocess.run(
        tmux + ["new-session", "-d", "-x", str(columns), "-y", str(rows), haul, "top"], env=environment, check=True)
    try:
        for name, keys in [("list", []), ("job", ["Down", "Enter"]), ("help", ["Escape", "?"])]:
            if keys:
                subprocess.run(tmux + ["send-keys"] + keys, check=True)
            # Wait for some frames: rates are known after two of them.
            time.sleep(4)
            yield name, subprocess.run(tmux + ["capture-pane", "-p"], capture_output=True, text=True, check=True).stdout
    finally:
        subprocess.run(tmux + ["kill-server"], stderr=subprocess.DEVNULL)


def redis_cpu(socket):
    """The CPU seconds of the server's main thread so far."""
    text = subprocess.run(["redis-cli", "-s", str(socket), "INFO", "cpu"], capture_output=True, text=True).stdout
    values = dict(line.split(":") for line in text.split() if ":" in line)
    return float(values["used_cpu_sys"]) + float(values["used_cpu_user"])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("haul")
    parser.add_argument("--running", type=int, default=1000, help="slots of all workers")
    parser.add_argument("--queued", type=int, default=9000)
    parser.add_argument("--seconds", type=int, default=15)
    parser.add_argument("--screens")
    options = parser.parse_args()
    # Each job is a connection at both ends, and a file.
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    workers = -(-options.running // SLOTS)
    if shutil.disk_usage(tempfile.gettempdir()).free < 4 * LENGTH * options.running:
        sys.exit(f"too little space in {tempfile.gettempdir()}")
    haul = os.path.abspath(options.haul)
    directory = pathlib.Path(tempfile.mkdtemp(prefix="haul-top-"))
    socket = directory / "redis.sock"
    url = f"unix://{socket}"
    processes = []
    try:
        processes.append(subprocess.Popen(
            ["redis-server", "--port", "0", "--unixsocket", str(socket), "--save", "", "--dir", str(directory)],
            stdout=open(directory / "redis.log", "w")))
        while subprocess.run(["redis-cli", "-s", str(socket), "PING"], capture_output=True).returncode:
            time.sleep(0.1)
        port = start_origin(max(1, options.running / 1000))
        failing = 50
        count = options.running + options.queued + failing
        lines = "".join(
            "LPUSH haul:{default}:jobs '%s'\n" % json.dumps(
                {"id": f"job-{n:05}", "url": f"http://127.0.0.1:{port}/{'gone/' * (n < failing)}{n}.mkv", "path": f"films/{n}.mkv"})
            for n in range(count))
        subprocess.run(["redis-cli", "-s", str(socket)], input=lines.encode(), stdout=subprocess.DEVNULL, check=True)
        (directory / "root").mkdir()
        log = open(directory / "log", "w")
        for number in range(workers):
            slots = str(options.running // workers)
            processes.append(subprocess.Popen(
                [haul, "worker", "--redis", url, "--root", str(directory / "root"), "--slots", slots, "--name", f"w{number + 1}",
                 "--connections", "1", "--connections-per-host", slots, "--allow-private", "--allow-address",
                 "127.0.0.0/8"], stdout=log, stderr=log))
        end = time.time() + 240
        while time.time() < end and processes[0].poll() is None:
            got = subprocess.run(
                ["redis-cli", "-s", str(socket), "ZCARD", "haul:{default}:leases"], capture_output=True, text=True).stdout
            if int(got or 0) >= options.running:
                break
            time.sleep(0.5)
        if not got:
            sys.exit("Redis has ended: " + (directory / "redis.log").read_text()[-2000:])
        print(f"{got.strip()} jobs run on {workers} workers, {options.queued} wait, {failing} have failed")
        environment = dict(os.environ, HAUL_REDIS=url, TERM="xterm", LANG="C.UTF-8")
        before = redis_cpu(socket)
        time.sleep(options.seconds)
        print(f"Redis without it: {1000 * (redis_cpu(socket) - before) / options.seconds:.0f} ms/s")
        print("size     frames  first  median  largest  bytes/s  clears  CPU ms/s  MiB  Redis ms/s")
        for columns, rows in SIZES:
            before = redis_cpu(socket)
            frames, usage, status = watch(haul, environment, columns, rows, options.seconds)
            cpu = usage.ru_utime + usage.ru_stime
            beside = redis_cpu(socket) - before
            # The first second draws the whole screen twice: before and after the size is known.
            later = [len(frame) for frame in frames[2:]] or [0]
            clears = sum(frame.count(b"\x1b[2J") for frame in frames[2:])
            size = f"{columns}x{rows}"
            print(
                f"{size:8} {len(frames):6} {max(map(len, frames[:2])):6} {statistics.median(later):7.0f} {max(later):8} "
                f"{sum(later) / options.seconds:8.0f} {clears:7} {1000 * cpu / options.seconds:9.1f} "
                f"{usage.ru_maxrss / 1024:4.0f} {1000 * beside / options.seconds:11.0f}"
                + ("" if status == 0 else f"  status {status}"), flush=True)
            if options.screens:
                pathlib.Path(options.screens).mkdir(exist_ok=True)
                for name, text in screens(haul, environment, columns, rows, directory):
                    (pathlib.Path(options.screens) / f"{size}-{name}.txt").write_text(text)
        still = subprocess.run(
            ["redis-cli", "-s", str(socket), "ZCARD", "haul:{default}:leases"], capture_output=True, text=True).stdout
        print(f"{still.strip()} jobs run at the end")
    finally:
        for process in reversed(processes):
            process.terminate()
        for process in reversed(processes):
            try:
                process.wait(15)
            except subprocess.TimeoutExpired:
                process.kill()
        shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
