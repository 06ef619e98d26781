"""What the page shows, and what its buttons do, after something else has changed: tests of browser.py."""

import hashlib
import json
import pathlib
import socket
import time
import urllib.parse

from selenium.webdriver.common.by import By

from bench import eventually, free_port


def leave(bench, queue, name, state="completed"):
    """Ends an invented job as a worker elsewhere would."""
    bench.redis("ZREM", f"haul:{{{queue}}}:leases", name)
    bench.redis("HSET", f"haul:{{{queue}}}:job:{name}", "state", state)
    bench.redis("ZADD", f"haul:{{{queue}}}:{state}", "1", name)


def test_a_filtered_list_follows_its_jobs(bench):
    bench.invent("fresh", 60)
    bench.visit("#/fresh/jobs/running?host=host1.example")
    bench.shows("9 found among 60.")
    bench.redis("HSET", "haul:{fresh}:job:running-00008", "speed", "77000000")
    bench.shows("77 MB/s")
    leave(bench, "fresh", "running-00015")
    bench.shows("8 found among 59.")
    # The server examines 2,000 jobs each second. What lies behind them is searched again.
    bench.invent("far", 2500)
    bench.visit("#/far/jobs/running?q=248")
    bench.shows("2480.bin", "2489.bin", "found among 2,500.")
    number = lambda: int(bench.text(".sums").split()[0])
    first = number()
    bench.redis("HSET", "haul:{far}:job:running-02485", "speed", "77000000")
    bench.shows("77 MB/s", within=30)
    leave(bench, "far", "running-02485")
    eventually("the row to leave", lambda: number() == first - 1 and "2485.bin" not in bench.text(), within=30)


def test_a_paused_host_keeps_its_other_limits(bench):
    limits = {f"host{number}.example": {"starts": "5/s", "rate": 1_000_000} for number in range(7)}
    limits["host0.example:8080"] = {"connections": 3, "max_bytes": 5}
    bench.ask("queues/some/settings", {"limits": limits}, "PATCH")
    known = lambda: bench.ask("queues/some/settings")["limits"]
    bench.visit("#/some/job/failed-00000")
    bench.press("Pause this host")
    bench.notices("No job begins at host0.example until its limit is raised.")
    paused = {"host0.example": {"starts": "5/s", "rate": 1_000_000, "connections": 0}, "host0.example:8080": {"connections": 0, "max_bytes": 5}}
    assert known() == {**limits, **paused}, known()
    # Another operator changes a limit before the pause is undone.
    changed = {"host0.example": {**paused["host0.example"], "starts": "9/s"}}
    bench.ask("queues/some/settings", {"limits": changed}, "PATCH")
    bench.press("Undo", "#floating")
    bench.notices("The former limits count again.")
    assert known() == {**limits, "host0.example": {"starts": "9/s", "rate": 1_000_000}}, known()
    bench.visit("#/some/overview")
    bench.press("Pause this host")
    bench.notices("until its limit is raised.")
    stopped = [host for host, limit in known().items() if limit.get("connections") == 0]
    assert stopped and all(known()[host].get("rate") == 1_000_000 for host in stopped if ":" not in host), known()
    bench.ask("queues/some/settings", {"limits": {host: None for host in known()}}, "PATCH")
    for number in range(2):
        bench.redis("HSET", f"haul:{{fresh}}:job:six-{number}", "state", "failed", "error", "connect", "url", "http://[::1]/a")
        bench.redis("ZADD", "haul:{fresh}:failed", "1", f"six-{number}")
    bench.visit("#/fresh/job/six-0")
    bench.press("Pause this host")
    bench.notices("No job begins at ::1 until its limit is raised.")
    assert bench.ask("queues/fresh/settings")["limits"] == {"[::1]": {"connections": 0}}


def test_a_push_with_a_new_url_keeps_all_else(bench):
    worker = bench.worker("renewer", "--queue", "renewals")
    job = {
        "url": f"{bench.origin}/missing/old", "id": "renewed", "path": "films/film.bin", "checksum": f"sha256:{'0' * 64}", "size": 6_000_000,
        "headers": {"X-Key": "a: b"}, "group": "acme", "meta": {"customer": [7, "x"]}, "batch": {"name": "renewals", "size": 1},
        "reply_to": "answers", "retries": 0, "connections": 1, "if_exists": "overwrite", "min_speed": 10,
        "else": [{"kind": "request", "url": f"{bench.origin}/echo"}],
    }
    pushed = lambda name: bench.ask(f"queues/renewals/jobs/{name}/pushed")["pushed"]
    state = lambda name: bench.ask(f"queues/renewals/jobs/{name}")["state"]
    bench.ask("queues/renewals/jobs", job)
    eventually("it to fail", lambda: state("renewed") == "failed")
    bench.visit("#/renewals/job/renewed")
    bench.press("Push with a new URL…")
    bench.shows("The job is pushed as before", "Also pushed as before: size, min_speed.", inside="dialog")
    fresh = f"{bench.origin}/slow/fresh?size=6000000&rate=200000"
    bench.fill("URL", fresh)
    bench.fill("Retries", "2")
    bench.press("Push 1 job", "dialog")
    bench.shows("1 job pushed", inside="dialog")
    eventually("it to run", lambda: state("renewed") == "running")
    found = {name: value for name, value in pushed("renewed").items() if name != "at"}
    assert found == {**job, "url": fresh, "retries": 2}, found
    # The next push of this dialog has nothing of it.
    assert "pushed as before" not in bench.text("dialog")
    bench.fill("URL", f"{bench.origin}/slow/plain?size=6000000&rate=200000")
    bench.press("Push 1 job", "dialog")
    eventually("another job", lambda: "renewed" not in bench.text("dialog .pushed"))
    other = bench.text("dialog .pushed")
    eventually("it to run", lambda: state(other) == "running")
    assert sorted(pushed(other)) == ["at", "id", "url"], pushed(other)
    bench.ask("queues/renewals/control", {"action": "cancel", "ids": ["renewed", other]})
    # Of what has ended and is no longer kept, the record's fields are offered.
    eventually("its end", lambda: state("renewed") == "cancelled")
    bench.press("Close", "dialog")
    # The page is made again when the record of the change arrives, which would close the menu.
    bench.shows("Cancelled by 127.0.0.1")
    bench.click("button[aria-label='More actions']")
    bench.press("Push with a new URL…")
    bench.shows("What was pushed is no longer kept.", inside="dialog")
    assert bench.box("Save as", "input").get_attribute("value") == "films/film.bin"
    bench.press("Close", "dialog")
    bench.end(worker)


def test_what_a_lost_worker_ran_is_not_shown_as_live(bench):
    bench.invent("lost", 90)
    workers = [f"haul:{{lost}}:worker:w{number}" for number in range(9)]
    bench.visit("#/lost/job/running-00001")
    bench.shows("at 10 kB/s on w1")
    bench.redis("HSET", workers[1], "seen", "1")
    bench.shows("The worker w1 is silent at", "; the job goes on at another worker")
    bench.visit("#/lost/overview")
    bench.shows("w1 has been silent for", "Its 10 jobs go on at other workers.")
    for key in workers[2:]:
        bench.redis("DEL", key)
    bench.redis("HSET", workers[0], "seen", "1")
    bench.shows("Receiving 0 B/s with 0 of 2 workers", "No worker serves this queue", "Its 10 jobs go on as soon as another worker takes jobs.")
    bench.shows("Slowed by", "No worker takes jobs", "90 running")
    bench.visit("#/lost/workers")
    bench.shows("its jobs wait for another worker")
    bench.visit("#/lost/jobs/running")
    bench.shows("90 running at 0 B/s")
    assert "kB/s" not in bench.text("main .list"), bench.text("main .list")
    bench.visit("#/lost/job/running-00001")
    bench.shows("the job goes on as soon as another worker takes jobs", "Slowed by")


def test_a_missing_right_is_said(bench):
    rules = (pathlib.Path(__file__).parent / "../../deploy/redis/users.acl").read_text()
    words = next(line for line in rules.splitlines() if line.startswith("user monitor ")).split()[4:]
    text, rest = [], iter(words)
    for word in rest:
        # A selector in parentheses is one argument.
        while word.startswith("(") and not word.endswith(")"):
            word += " " + next(rest)
        text.append(word.replace("{default}", "{some}"))
    bench.redis("ACL", "SETUSER", "monitor", "on", ">secret", *text)
    port = free_port()
    bench.redis("CONFIG", "SET", "port", str(port))
    other = bench.port
    usual = bench.web
    bench.end(usual)
    try:
        bench.serve_queues(["some"], "--redis", f"redis://monitor:secret@127.0.0.1:{port}")
        for page in ["rejected", "schedules", "settings"]:
            bench.visit(f"#/some/{page}")
            bench.shows("This cannot be read: ", "permission")
            assert "Reading" not in bench.text(), bench.text()
        bench.visit("#/some/overview")
        bench.shows("300")
        assert "This cannot be read" not in bench.text()
    finally:
        bench.end(bench.web)
        bench.redis("CONFIG", "SET", "port", "0")
        bench.serve()
    bench.visit("#/some/settings")
    bench.shows("Workers follow a change within a second.")
    bench.complaints()


def test_a_job_is_shown_without_events_if_they_are_refused(bench):
    """Sixteen pages of this address follow the events of other jobs."""
    bench.driver.get("about:blank")
    streams = []
    for number in range(16):
        stream = socket.create_connection(("127.0.0.1", bench.port))
        stream.sendall(f"GET /api/live?watch=queues/some&events=some/x{number} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        streams.append(stream)
    for stream in streams:
        eventually("a stream", lambda: b"change" in stream.recv(4000))
    bench.visit("#/some/job/running-00007")
    bench.shows("New events are not shown here: too many jobs are watched at once", "Downloading")
    bench.redis("HSET", "haul:{some}:job:running-00007", "speed", "66000000")
    bench.shows("at 66 MB/s")
    assert not bench.driver.execute_script("return document.body.classList.contains('stale')")
    for stream in streams:
        stream.close()
    bench.complaints()


def test_ages_are_by_the_clock_of_the_server(bench):
    ahead = "{ const now = Date.now; Date.now = () => now() + 600_000; }"
    script = bench.driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": ahead})["identifier"]
    try:
        now = int(time.time() * 1000)
        bench.redis("LPUSH", "haul:{fresh}:rejected", f'{{"at":{now},"reason":"url: is missing","element":"x"}}')
        bench.redis("HSET", "haul:{fresh}:job:due", "state", "scheduled", "url", "http://h.example/due.bin")
        bench.redis("ZADD", "haul:{fresh}:scheduled", str(now + 300_000), "due")
        bench.driver.get("about:blank")
        bench.visit("#/fresh/rejected")
        bench.shows(" s", inside="main tbody")
        bench.visit("#/fresh/jobs/scheduled")
        bench.shows("due.bin", "in ")
        assert "due now" not in bench.text("main .list"), bench.text("main .list")
        bench.visit("#/fresh/jobs/running")
        eventually("the ages", lambda: "10 min" not in bench.text("main .list"))
    finally:
        bench.driver.execute_cdp_cmd("Page.removeScriptToEvaluateOnNewDocument", {"identifier": script})
        bench.driver.get("about:blank")


def test_words_follow_the_settings(bench):
    bench.ask("queues/one/settings", {"keep_completed": 3600, "keep_failed": 172_800, "event_stream": 100_000}, "PATCH")
    bench.redis("ZADD", "haul:{one}:completed", "1", "done")
    bench.redis("HSET", "haul:{one}:job:done", "state", "completed", "url", "http://h.example/")
    bench.visit("#/one/overview")
    bench.shows("of the last hour")
    bench.visit("#/one/jobs/failed?view=list")
    bench.shows("No job has failed within the last 2 d.")
    bench.visit("#/one/settings")
    bench.fill("Events", "5")
    bench.shows("Was 100,000 events.")
    bench.fill("Jobs at once", "1,000")
    bench.press("Save 1 change")
    bench.notices("1 change saved")
    assert bench.ask("queues/one/settings")["max_running"] == 1000
    bench.fill("Bytes a second", "1,5")
    bench.press("Save 1 change")
    eventually("a decimal comma", lambda: bench.ask("queues/one/settings").get("rate") == 1_500_000)
    bench.ask("queues/one/settings", {name: None for name in ["keep_completed", "keep_failed", "event_stream", "max_running", "rate"]}, "PATCH")
    bench.redis("DEL", "haul:{one}:completed", "haul:{one}:job:done")
    bench.redis("HSET", "haul:{one}:worker:free", "state", "working", "seen", str(int(time.time() * 1000) + 3_600_000), "slots", "unlimited", "running", "3")
    bench.redis("ZADD", "haul:{one}:workers", "1", "free")
    bench.visit("#/one/workers")
    bench.shows("free", "3")
    assert "NaN" not in bench.text(), bench.text()
    bench.redis("DEL", "haul:{one}:worker:free")


def test_a_selection_acts_only_on_jobs_that_are_still_there(bench):
    """Of a long list only some rows are read again, so that others may have left the state."""
    bench.visit("#/long/jobs/failed?view=list")
    bench.shows("of 1,200")
    boxes = lambda: bench.driver.find_elements(By.CSS_SELECTOR, ".list tbody tr:not(.spacer):not(.blank)")
    eventually("rows", lambda: len(boxes()) > 3)
    ids = []
    for row in boxes()[:3]:
        ids.append(row.find_element(By.CSS_SELECTOR, ".file a").get_attribute("href").rsplit("/", 1)[-1])
        bench.driver.execute_script("arguments[0].click()", row.find_element(By.TAG_NAME, "input"))
    bench.shows("3 selected", inside="#floating")
    # A colleague retries one of them.
    score = bench.redis("ZSCORE", "haul:{long}:failed", ids[1])
    bench.redis("HSET", f"haul:{{long}}:job:{ids[1]}", "state", "running")
    bench.redis("ZREM", "haul:{long}:failed", ids[1])
    bench.press("Remove…", "#floating")
    bench.press("Remove 3 jobs", "dialog")
    bench.notices("2 jobs are being removed. 1 is no longer failed.")
    assert sorted(bench.redis("HKEYS", "haul:{long}:want").split()) == sorted([ids[0], ids[2]])
    bench.redis("DEL", "haul:{long}:want")
    bench.redis("HSET", f"haul:{{long}}:job:{ids[1]}", "state", "failed")
    bench.redis("ZADD", "haul:{long}:failed", score, ids[1])


def test_failures_of_an_unknown_host_are_retried(bench):
    now = str(int(time.time() * 1000))
    for name, url in [("known", ["url", "http://h.example/"]), ("lost", [])]:
        bench.redis("HSET", f"haul:{{lost}}:job:{name}", "state", "failed", "error", "dns", "retryable", "1", *url)
        bench.redis("ZADD", "haul:{lost}:failed", now, name)
    bench.visit("#/lost/overview")
    bench.shows("unknown")
    bench.driver.execute_script("[...document.querySelectorAll('.faults li')].find((one) => one.textContent.includes('unknown')).querySelector('button').click()")
    bench.notices("1 job runs again from its bytes on disk.")
    assert bench.redis("HKEYS", "haul:{lost}:want") == "lost"
    bench.redis("DEL", "haul:{lost}:want", "haul:{lost}:failed")


def test_a_forecast_is_of_the_last_minutes(bench):
    # A past hour is read once, and no test before this one reads the history of this queue.
    minute = int(time.time()) // 60 - 3
    bench.redis("HSET", f"haul:{{far}}:history:{minute // 60}", f"{minute % 60} completed", "600")
    bench.redis("LPUSH", "haul:{far}:jobs", '{"url":"http://h.example/waits.bin"}')
    forecast = lambda: bench.text(".forecast")
    try:
        # The half hours of two days do not tell how many ended a minute ago.
        bench.visit("#/far/overview?range=2d")
        bench.shows("/30 min", "1 job waits.")
        assert forecast() == "1 job waits.", forecast()
        bench.press("Last hour")
        eventually("a forecast", lambda: "is done in about" in forecast())
        bench.press("2 days")
        bench.shows("/30 min")
        eventually("none", lambda: forecast() == "1 job waits.")
    finally:
        bench.press("Last hour")
        bench.redis("DEL", "haul:{far}:jobs", f"haul:{{far}}:history:{minute // 60}")


DROP = """
const data = new DataTransfer();
data.items.add(new File([arguments[0]], "urls.txt"));
document.querySelector(".welcome-card").dispatchEvent(new DragEvent("drop", { dataTransfer: data, bubbles: true, cancelable: true }));
"""


def test_a_list_that_is_too_long_for_one_push_is_refused(bench):
    bench.visit("#/empty/overview")
    bench.shows("Nothing to download yet")
    urls = [f"http://h.example/{number}" for number in range(1001)]
    bench.driver.execute_script(DROP, "\n".join(urls))
    bench.notices("1,001 URLs are given, but one push has at most 1,000. Use haul push for more.")
    assert bench.redis("LLEN", "haul:{empty}:jobs") == "0"
    bench.driver.execute_script(DROP, "\n".join(urls[1:]))
    bench.notices("1,000 jobs are in the queue.")
    assert bench.redis("LLEN", "haul:{empty}:jobs") == "1000"
    bench.redis("DEL", "haul:{empty}:jobs")


def test_what_is_not_listed_is_counted(bench):
    entry = '{"at":1,"reason":"url: is missing","element":"x"}'
    bench.redis("LPUSH", "haul:{lost}:rejected", *[entry] * 150)
    bench.visit("#/lost/rejected")
    bench.shows("150 elements were no valid jobs.", "The newest 100 are shown.")
    bench.redis("LTRIM", "haul:{lost}:rejected", "0", "39")
    bench.shows("40 elements were no valid jobs. They hold up nothing behind them.")
    assert "are shown" not in bench.text(), bench.text()
    bench.redis("DEL", "haul:{lost}:rejected")
    names = [f"more{number}" for number in range(11)]
    now = str(int(time.time() * 1000) + 3_600_000)
    bench.redis("--pipe", text="".join(f"HSET haul:{{one}}:worker:{name} state working seen {now} slots 1\nZADD haul:{{one}}:workers 1 {name}\n" for name in names))
    bench.visit("#/one/overview")
    bench.shows("; 12 of 20 workers are shown")
    bench.redis("DEL", *[f"haul:{{one}}:worker:{name}" for name in names])
    bench.redis("ZREM", "haul:{one}:workers", *names)


def test_each_host_that_fails_is_counted(bench):
    bench.visit("#/some/overview")
    bench.shows("7 hosts fail.")
    bench.click(".attention .more")
    eventually("all of them", lambda: all(f"host{number}.example" in bench.text(".faults") for number in range(7)))


def test_a_whole_url_finds_jobs_that_no_worker_has_seen(bench):
    url = "https://a.example/film.bin?sig=1"
    push = lambda name: bench.redis("LPUSH", "haul:{empty}:jobs", json.dumps({"url": url, "id": name}))
    digest = hashlib.sha1(f"{url}\n".encode()).hexdigest()[:16]
    bench.redis("HSET", "haul:{empty}:job:resumed", "state", "queued", "url", "https://a.example/film.bin?[masked]", "url_digests", digest)
    bench.redis("HSET", "haul:{empty}:urls", digest, "resumed")
    push("resumed")
    push("unseen")
    page = f"#/empty/jobs/queued?{urllib.parse.urlencode({'q': url})}"
    select_all = lambda: bench.press("Select all that match", "#floating")
    bench.visit(page)
    bench.shows("2 found.", "1 to 2 of 2")
    bench.click(".list tbody tr:not(.spacer) input")
    select_all()
    bench.shows("2 selected", inside="#floating")
    # The search is repeated.
    push("later")
    bench.shows("3 found.")
    # Until it has ended, the number of jobs that match is unknown.
    bench.visit("#/empty/overview")
    with bench.holding("jobs?") as wait:
        bench.visit(page)
        wait()
        bench.shows("1 found so far.")
        bench.click(".list tbody tr:not(.spacer) input")
        select_all()
        bench.shows("All that match are selected", inside="#floating")
        bench.press("Cancel…", "#floating")
        bench.shows("Cancel every job that matches", inside="dialog")
        bench.press("Keep them", "dialog")
    bench.shows("3 selected", inside="#floating")
    bench.redis("DEL", "haul:{empty}:jobs", "haul:{empty}:urls", "haul:{empty}:job:resumed")


def test_what_is_shown_again_is_not_older_than_it_says(bench):
    bench.visit("#/some/overview")
    # From here on the page's clock goes on as the test says.
    bench.driver.execute_script("const now = Date.now(); window.ahead = 0; Date.now = () => now + window.ahead;")
    ahead = lambda time: bench.driver.execute_script("window.ahead = arguments[0]", time)
    try:
        bench.visit("#/some/job/running-00007")
        bench.shows("Downloading")
        bench.visit("#/some/overview")
        bench.shows("Bytes received")
        ahead(4000)
        bench.redis("HSET", "haul:{some}:settings", "paused", "1")
        bench.shows("The queue is paused")
        bench.end(bench.web)
        bench.visit("#/some/job/running-00007")
        bench.shows("Downloading")
        eventually("the banner", lambda: bench.driver.execute_script("window.ahead += 100; return document.body.classList.contains('stale')"))
        ahead(64_000)
        eventually("the age of the job", lambda: "What you see is 1 min 4 s old." in bench.text("#connection"))
        # By now it is too old to be shown once more.
        bench.visit("#/some/overview")
        bench.visit("#/some/job/running-00007")
        assert "Downloading" not in bench.text() and bench.text("main h1") == "Reading …", bench.text()
    finally:
        bench.redis("HDEL", "haul:{some}:settings", "paused")
        if bench.web.poll() is None:
            bench.end(bench.web)
        bench.serve()
        bench.driver.get("about:blank")
        bench.complaints()
