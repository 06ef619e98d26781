"""Makes the picture of the page in README.md: real jobs of `haul up` and of two more workers, in a real browser.

  python3 Tests/web/picture.py HAUL FILE.png [--seconds N]      (as root)
"""

import argparse
import base64
import ctypes
import json
import pathlib
import subprocess
import time

from bench import Bench, eventually

FILMS = ["harbour", "the-long-road", "winter-light", "salt", "first-snow", "northbound", "the-keeper", "low-tide"]
HOSTS = ["media.example.org", "archive.example.com", "covers.example.net", "posters.example.net"]


def name_hosts(directory):
    """Gives this machine the names HOSTS, for this process and those that it starts. Requires root."""
    hosts = directory / "hosts"
    hosts.write_text(f"127.0.0.1 localhost {' '.join(HOSTS)}\n")
    if ctypes.CDLL(None).unshare(0x20000):  # CLONE_NEWNS
        raise SystemExit("picture.py: run it as root: it gives the origin names")
    subprocess.run(["mount", "--make-rprivate", "/"], check=True)
    subprocess.run(["mount", "--bind", hosts, "/etc/hosts"], check=True)


def jobs(port):
    """Films that hold most of the slots, small files that come and go in the others, some failures, and more films."""
    for number in range(12):
        yield {"url": f"http://posters.example.net:{port}/missing/{number}.jpg", "id": f"poster-{number}", "retries": 0}
    yield from films(port, range(13))
    for number in range(600):
        size = 20_000 + number * 97 % 60_000
        yield {"url": f"http://covers.example.net:{port}/{number}.jpg?size={size}&rate=30000", "id": f"cover-{number}", "path": f"covers/{number}.jpg"}
    yield from films(port, range(13, 90))


def films(port, numbers):
    for number in numbers:
        name = f"{FILMS[number % len(FILMS)]}-{1 + number // len(FILMS)}.mkv"
        size, rate = 80_000_000 + number * 7_000_003 % 90_000_000, 250_000 + number * 31_013 % 400_000
        host = HOSTS[number % 3 == 0]
        yield {"url": f"http://{host}:{port}/films/{name}?size={size}&rate={rate}", "id": f"film-{number}", "path": f"films/{name}",
               "connections": 1 + number % 3, "batch": "autumn"}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("haul")
    parser.add_argument("picture", type=pathlib.Path)
    parser.add_argument("--seconds", type=float, default=100, help="for how long the fleet works before")
    options = parser.parse_args()
    bench = Bench(options.haul)
    try:
        name_hosts(bench.directory)
        bench.root = bench.directory / "files"
        log = bench.directory / f"{len(bench.processes)}.log"
        bench.start(
            bench.haul, "up", "--json", "--root", str(bench.root), "--slots", "6", "--listen", f"127.0.0.1:{bench.port}",
            "--allow-address", "127.0.0.0/8")
        response = json.loads(eventually(
            "haul up", lambda: next(line for line in log.read_text().splitlines() if line.startswith('{"page"'))))
        bench.socket = pathlib.Path(response["redis"].removeprefix("unix://"))
        for name in ["berlin", "paris"]:
            bench.worker(name, "--slots", "6")
        signed_in = "Basic " + base64.b64encode(f"admin:{response['password']}".encode()).decode()
        listed = "\n".join(json.dumps(job) for job in jobs(bench.origin.rpartition(":")[2]))
        bench.command("push", "-", text=listed)
        time.sleep(options.seconds)
        driver = bench.browse()
        driver.execute_cdp_cmd("Network.enable", {})
        driver.execute_cdp_cmd("Network.setExtraHTTPHeaders", {"headers": {"Authorization": signed_in}})
        driver.execute_cdp_cmd(
            "Emulation.setDeviceMetricsOverride", {"width": 1500, "height": 820, "deviceScaleFactor": 1, "mobile": False})
        bench.visit("#/default/overview")
        # Speeds are means of some seconds.
        time.sleep(10)
        driver.save_screenshot(str(options.picture))
    finally:
        bench.close()
    size = options.picture.stat().st_size
    print(f"{options.picture}: {size} bytes")
    assert size < 200_000, "README.md needs a smaller picture"


if __name__ == "__main__":
    main()
