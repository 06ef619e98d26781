"""Pictures of every screen of `haul web`, with a fleet that is invented in Redis: no worker runs.

  python3 Tests/web/shots.py HAUL DIRECTORY [--widths 360,1280,2560] [--themes light,dark] [--only NAME,…] [--page DIRECTORY]

With --page the page's files come from that directory instead of the binary, so that a change of them needs no build.
Pictures are for people who look at them. They are not compared, and not kept in git.
"""

import argparse
import base64
import hashlib
import json
import pathlib
import random
import time

from selenium.webdriver.common.by import By

from bench import Bench

HOSTS = [("eu.mirror.example.org", 128), ("media.example.com", 96), ("tiles.example.net", 40), ("data.weather.example", 36), ("archive.example.org", 12)]
WORKERS = [("worker-1", 64, 64, "working"), ("worker-2", 64, 64, "working"), ("worker-3", 61, 64, "working"), ("worker-4", 63, 64, "working"), ("worker-5", 12, 64, "lost"), ("worker-6", 48, 64, "quiet")]
FILES = ["weather/2026-11-24_atlantic_storm_4k.mkv", "maps/planet-261123.osm.pbf", "wildlife/kestrel-nest-cam-07.mp4", "reels/1968/restored-reel-0412.mov", "weather/ecmwf-0p25-2026112406.grib2",
         "oral-history/interviews-disc-2.iso", "tiles/32T/sentinel2_T32TPS_B04.jp2", "city/harbour-timelapse-full.mp4", "courses/lecture-series-s03.tar.zst", "audio/bird-calls-flac-14.zip", "science/glacier-survey-lidar.laz"]
FAILURES = [("http_503", "archive.example.org", 214, 1), ("http_403", "tiles.example.net", 86, 0), ("checksum_mismatch", "eu.mirror.example.org", 9, 0), ("stalled", "archive.example.org", 5, 1), ("tls", "old-ftp-gate.example", 3, 0), ("file_exists", "media.example.com", 1, 0)]


def invent(bench, queue):
    """Writes what a fleet of six workers would have written."""
    chance = random.Random(1)
    now = int(time.time() * 1000)
    base = f"haul:{{{queue}}}:"
    out = []
    def put(*words):
        out.append("*%d\r\n" % len(words) + "".join("$%d\r\n%s\r\n" % (len(str(word).encode()), word) for word in words))
    def job(name, index, score, **fields):
        put("HSET", f"{base}job:{name}", *[part for pair in fields.items() for part in pair])
        put("ZADD", base + index, score, name)
    workers = [name for name, running, *_ in WORKERS for _ in range(running)]
    number = 0
    for host, many in HOSTS:
        for _ in range(many):
            path = FILES[number % len(FILES)].replace(".", f"-{number:03}.", 1) if number >= len(FILES) else FILES[number]
            total = chance.choice([118_000_000, 2_100_000_000, 4_700_000_000, 12_300_000_000, 84_100_000_000])
            received = int(total * chance.uniform(0.03, 0.98))
            waits = host == "archive.example.org" and number % 2
            fields = dict(state="running", url=f"https://{host}/{path}", path=path, received=received, total=total, worker=workers[number % len(workers)], attempt=0,
                          speed=0 if waits else chance.randrange(300_000, 4_000_000), created=now - chance.randrange(60_000, 2_000_000), started=now - chance.randrange(2000, 1_900_000), updated=now)
            if waits:
                fields["waiting"] = "host"
            if number % 5 == 0:
                fields["batch"] = "night-2026-11-24"
            name = f"film-{number:04}"
            job(name, "leases", now + 3_600_000, **fields)
            parts = 1 if number % 3 else 3
            for part in range(parts):
                start = total * part // parts
                put("HSET", f"{base}offsets:{name}", start, start + max(1, received // parts))
            number += 1
    for error, host, many, retryable in FAILURES:
        for index in range(many):
            at = now - int(chance.expovariate(1 / (700_000 if retryable else 1_500_000)))
            path = f"reels/1968/restored-reel-{index:04}.mov" if host.startswith("archive") else f"tiles/33U/sentinel2_T33UUP_B{index:02}.jp2"
            job(f"{error}-{index}-{host}", "failed", at, state="failed", url=f"https://{host}/{path}", path=path, error=error, retryable=retryable, attempt=5 if retryable else 0, finished=at, started=at - 60_000, created=at - 900_000, updated=at,
                received=64_000_000 if index % 2 else 0, total=118_000_000, worker="worker-2", message={"http_503": "the server answered 503", "http_403": "the server answered 403"}.get(error, error))
            if index % 2:
                put("HSET", f"{base}offsets:{error}-{index}-{host}", 0, 40_000_000, 60_000_000, 84_000_000)
    for index in range(41):
        job(f"later-{index}", "scheduled", now + 8000 + index * 60_000, state="scheduled", url=f"https://media.example.com/later/{index}.mkv", attempt=1, error="http_503", message="the server answered 503", created=now - 60_000, updated=now)
    for index in range(12):
        job(f"stopped-{index}", "paused", now - 7_200_000, state="paused", url=f"https://media.example.com/stopped/{index}.mkv", received=700_000_000 * index, total=9_400_000_000, created=now - 9_000_000, updated=now - 7_200_000)
    for index in range(300):
        at = now - index * 60_000
        job(f"done-{index}", "completed", at, state="completed", url=f"https://media.example.com/done/{index}.mkv", file=f"done/{index}.mkv", path=f"done/{index}.mkv", received=9_400_000_000, total=9_400_000_000, worker="worker-1", finished=at, started=at - 300_000, created=at - 800_000, updated=at)
    for index in range(7):
        job(f"ended-{index}", "cancelled", now - index * 60_000, state="cancelled", url=f"https://media.example.com/ended/{index}.mkv", created=now, updated=now, finished=now - index * 60_000)
    for index in range(103_019 - 1860):
        host = "eu.mirror.example.org" if index % 2 else "media.example.com"
        put("LPUSH", base + "jobs", json.dumps({"url": f"https://{host}/queued/{index}.bin", "id": f"queued-{index:06}", "at": now - 18_720_000 * (103_019 - index) // 103_019}, separators=(",", ":")))
    for index in range(1860):
        put("LPUSH", base + "deferred_host:archive.example.org", json.dumps({"url": f"https://archive.example.org/queued/{index}.bin", "id": f"deferred-{index:05}", "at": now - 900_000}))
    put("ZADD", base + "deferred_hosts", now + 18_000, "archive.example.org")
    put("SET", base + "backoff:archive.example.org", now + 600_000, "PX", 600_000)
    for name, running, slots, state in WORKERS:
        lost = state == "lost"
        seen = now - 42_000 if lost else now + 86_400_000
        put("ZADD", base + "workers", seen, name)
        put("HSET", f"{base}worker:{name}", "host", f"node-{'abcdef'[int(name[-1]) - 1]}", "pid", 4200 + int(name[-1]), "version", "0.0.9" if name.endswith("6") else "0.1.0", "slots", slots, "running", running, "state", "working" if lost else state, "lease", 60_000 if lost else 8000, "seen", seen, "kinds", "upload download" if name.endswith("6") else "download request upload")
    put("HSET", base + "limits", "archive.example.org", '{"connections":12,"starts":"10/s"}', "media.example.com", '{"connections":100,"rate":300000000}', "tiles.example.net", '{"connections":40,"rate":15000000}', "old-ftp-gate.example", '{"connections":0}')
    put("HSET", base + "settings", "rate", 800_000_000, "host_connections", 128, "keep_cancelled", 43_200)
    put("HSET", base + "defaults", "base", '"https://media.example.com/feeds/"', "retries", 5, "connections", 4)
    for back in range(120):
        minute = now // 60_000 - back
        failed, retried = (14 + chance.randrange(6), 20 + chance.randrange(6)) if back < 21 else (1, 3)
        put("HSET", f"{base}history:{minute // 60}", f"{minute % 60} completed", 30 + chance.randrange(14) - (8 if back < 21 else 0), f"{minute % 60} failed", failed, f"{minute % 60} retrying", retried,
            f"{minute % 60} received", (560_000_000 if back < 21 else 690_000_000) * 60 + chance.randrange(60) * 60_000_000)
    for name, pending, completed, failed, size in [("reels-1968", 374, 612, 214, 1200), ("tiles-33U", 40, 274, 86, 400), ("night-2026-11-24", 118, 118, 4, 240), ("courses-s03", 0, 64, 0, 64)]:
        put("HSET", f"{base}batch:{name}", "pending", pending, "completed", completed, "failed", failed, "cancelled", 0, "rejected", 0, "size", size, "round", 0 if pending else 1, "created", now - 20_000_000, *([] if pending else ["finished", now - 1_000_000]))
        put("ZADD", base + "batches", now - 20_000_000, name)
    for index in range(13):
        put("LPUSH", base + "rejected", json.dumps({"at": now - 240_000, "reason": "url: must be an http or https URL with a valid host name", "element": '{"url":"ftp://example.org/%d"}' % index}))
    for name, rule, url, last in [("feeds", {"every": 21_600}, "https://media.example.com/feeds/index.json", "done-0"), ("planet", {"cron": "0 3 * * mon", "zone": "Europe/Berlin"}, "https://eu.mirror.example.org/maps/planet-latest.osm.pbf", "http_503-0-archive.example.org"),
                                   ("tiles", {"every": 900, "paused": True}, "https://tiles.example.net/33U.tar", None)]:
        definition = json.dumps({**rule, "job": {"url": url}}, separators=(",", ":"))
        put("HSET", base + "schedules", name, definition)
        put("HSET", f"{base}schedule:{name}", "definition", hashlib.sha1(definition.encode()).hexdigest(), "next", now + 7_500_000, "pushed", 214, "skipped", 3, "missed", 1, *(["last_id", last, "last_at", now - 9_000_000, "last_due", now - 9_000_000] if last else []))
    for start in range(0, len(out), 20_000):
        bench.redis("--pipe", text="".join(out[start:start + 20_000]))


def push_dialog(bench):
    bench.driver.find_element(By.CSS_SELECTOR, "dialog textarea").send_keys("https://media.example.com/feeds/2026/11/24/aurora_8k.mkv")


def schedule_dialog(bench):
    bench.press("Add a schedule")
    bench.press("By a cron expression", "dialog")


def selection(bench):
    for box in bench.driver.find_elements(By.CSS_SELECTOR, ".list tbody input")[3:9:2]:
        bench.driver.execute_script("arguments[0].click()", box)


def question(bench):
    selection(bench)
    bench.driver.execute_script("document.querySelector('.selection [data-action=cancel]').click()")


def edited(bench):
    box = bench.driver.find_element(By.CSS_SELECTOR, ".setting input")
    box.clear()
    box.send_keys("900")


SCREENS = {
    "overview": ("films/overview", None), "jobs-running": ("films/jobs/running", None), "jobs-selected": ("films/jobs/running", selection), "confirm": ("films/jobs/running", question), "jobs-queued": ("films/jobs/queued", None),
    "jobs-failed": ("films/jobs/failed", None), "jobs-list": ("films/jobs/failed?view=list", None), "jobs-filtered": ("films/jobs/running?host=media.example.com", None), "jobs-none": ("films/jobs/running?q=nothing-like-this", None), "job-running": ("films/job/film-0000", None), "job-failed": ("films/job/http_403-1-tiles.example.net", None),
    "push": ("films/push", push_dialog), "settings": ("films/settings", edited), "schedules": ("films/schedules", None), "schedule-add": ("films/schedules", schedule_dialog), "workers": ("films/workers", None), "batches": ("films/batches", None), "batch": ("films/batches/reels-1968", None), "rejected": ("films/rejected", None), "first-run": ("empty/overview", None), "queues": ("/queues", None),
}
# The screens whose looks depend on the number of jobs, of a queue without any and of one with a single job in each state.
# The queue `films` has 312 that run and 103,019 that wait.
for queue in ["none", "one"]:
    for screen in ["overview", "jobs/running", "jobs/queued", "jobs/failed", "jobs/completed", "workers", "batches", "schedules", "rejected", "settings"]:
        SCREENS[f"{queue}-{screen.replace('/', '-')}"] = (f"{queue}/{screen}", None)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("haul")
    parser.add_argument("directory", type=pathlib.Path)
    parser.add_argument("--widths", default="360,1280,2560")
    parser.add_argument("--themes", default="light,dark")
    parser.add_argument("--only", default="")
    parser.add_argument("--page", type=pathlib.Path)
    options = parser.parse_args()
    options.directory.mkdir(parents=True, exist_ok=True)
    bench = Bench(options.haul)
    try:
        invent(bench, "films")
        bench.page = options.page
        for state in ["running", "failed", "completed"]:
            bench.invent("one", 1, state)
        bench.redis("LPUSH", "haul:{one}:jobs", json.dumps({"url": "https://media.example.com/one.bin", "id": "waits"}))
        # A worker is there, so that no first run is shown.
        bench.redis("--pipe", text="".join(f"ZADD haul:{{{queue}}}:workers 9999999999999 worker-1\nHSET haul:{{{queue}}}:worker:worker-1 host node-a pid 1 version 0.1.0 slots 4 running 0 state working lease 8000 seen 9999999999999 kinds download\n" for queue in ["none", "one"]))
        bench.serve_queues(["films", "maps", "empty", "none", "one"])
        bench.browse()
        for width in map(int, options.widths.split(",")):
            bench.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 720})
            for theme in options.themes.split(","):
                bench.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": theme}]})
                for name, (path, body) in SCREENS.items():
                    if options.only and name not in options.only.split(","):
                        continue
                    bench.driver.get("about:blank")
                    bench.visit(f"#/{path}")
                    time.sleep(1.5)
                    if body:
                        body(bench)
                        time.sleep(0.4)
                    whole = bench.driver.execute_cdp_cmd("Page.getLayoutMetrics", {})["cssContentSize"]
                    picture = bench.driver.execute_cdp_cmd("Page.captureScreenshot", {"captureBeyondViewport": False if body else True, "clip": {"x": 0, "y": 0, "width": width, "height": 900 if body else max(900, min(2400, whole["height"])), "scale": 1}})
                    (options.directory / f"{name}-{theme}-{width}.png").write_bytes(base64.b64decode(picture["data"]))
        for complaint in bench.complaints():
            print(complaint)
    finally:
        bench.close()
    print(f"{len(list(options.directory.glob('*.png')))} pictures in {options.directory}")


if __name__ == "__main__":
    main()
