"""What people do on the page of `haul web`, in a real Chromium with real workers.

  python3 Tests/web/browser.py HAUL [--screenshots DIRECTORY]

Exits with 1 if a test fails.
"""

import argparse
import json
import pathlib
import socket
import subprocess
import sys
import time
import traceback

import axe_selenium_python
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from bench import Bench, eventually
from origin import HOSTILE

AXE = (pathlib.Path(axe_selenium_python.__file__).parent / "node_modules/axe-core/axe.min.js").read_text()
PAGES = ["overview", "jobs/running", "jobs/failed", "batches", "batches/night", "workers", "rejected", "push", "settings"]


def test_push_watch_pause_and_continue_elsewhere(bench):
    one = bench.worker("one")
    bench.visit("#/default/push")
    bench.fill("URLs", f"{bench.origin}/film.bin?size=6000000&rate=800000")
    bench.fill("Id", "film")
    bench.fill("Connections", "1")
    bench.fill("Meta", '{"customer":7}')
    bench.press("Push")
    bench.shows("1 pushed:", "film")
    bench.driver.find_element(By.LINK_TEXT, "film").click()
    bench.shows("It is running", "one", "in 1 piece")
    bar = lambda: float(bench.driver.find_element(By.CSS_SELECTOR, "svg.pieces rect").get_attribute("width"))
    first = bar()
    eventually("the bar to grow", lambda: bar() > first)
    bench.press("Pause")
    bench.shows("It is paused", "paused")
    bench.end(one)
    two = bench.worker("two")
    bench.press("Resume")
    bench.shows("It is running", "two", "resumed")
    bench.shows("It is completed", "The whole file.", within=40)
    bench.end(two)


def test_settings_and_bulk(bench):
    bench.visit("#/default/settings")
    bench.press("Pause the queue")
    bench.shows("The queue is paused")
    bench.fill("Most jobs at once", "5")
    bench.press("Set")
    bench.shows("At most 5 jobs run at once")
    jobs = [{"url": f"{bench.origin}/missing/{n}?a=b", "id": f"bulk-{n:03}", "retries": 0} for n in range(500)]
    bench.ask("queues/default/jobs", jobs)
    bench.visit("#/default/jobs/queued")
    bench.shows("1 to 100 of 500")
    for box in bench.driver.find_elements(By.CSS_SELECTOR, "tbody input")[:2]:
        box.click()
    bench.shows("2 chosen")
    bench.press("Pause")
    bench.notices("Pause: asked for 2 jobs.")
    bench.fill("Search", "bulk-49")
    bench.press("Search")
    bench.shows("10 found among 500")
    bench.choose("All that match")
    bench.press("Cancel")
    bench.press("Keep as it is", "dialog")
    bench.press("Cancel")
    bench.press("Yes, cancel", "dialog")
    bench.notices("Cancel: asked for 10 jobs.")
    worker = bench.worker("three")
    bench.visit("#/default/settings")
    bench.press("Resume the queue")
    bench.fill("Most jobs at once", "")
    bench.press("Set")
    bench.shows("Any number of jobs")
    bench.visit("#/default/overview")
    bench.shows("http_404", "127.0.0.1", "open", within=60)
    counts = lambda: bench.ask("queues/default")["counts"]
    eventually("all to end", lambda: (counts()["failed"], counts()["cancelled"], counts()["paused"]) == (488, 10, 2), 60)
    bench.driver.find_element(By.LINK_TEXT, "http_404").click()
    bench.shows("100 found")
    bench.choose("All that match")
    ends = lambda: [bench.ask(f"queues/default/jobs/bulk-{n}")["finished"] for n in (100, 300)]
    before = ends()
    begun = time.monotonic()
    bench.press("Retry")
    bench.notices("Retry: asked for 488 jobs.")
    print(f"    488 retries asked for in {time.monotonic() - begun:.2f} s")
    eventually("all to fail again", lambda: counts()["failed"] == 488 and not set(before) & set(ends()), 60)
    bench.visit("#/default/jobs/paused")
    bench.shows("1 to 2 of 2")
    bench.choose("Choose this page")
    bench.press("Remove")
    bench.press("Yes, remove", "dialog")
    bench.shows("No job is paused.")
    bench.end(worker)


def test_a_batch_from_its_first_job_to_its_end(bench):
    worker = bench.worker("batcher")
    bench.visit("#/default/batches")
    bench.shows("There are no batches: a job joins one with its field batch.")
    bench.visit("#/default/push")
    bench.fill("URLs", f"{bench.origin}/missing/b1\n{bench.origin}/b2?size=1000")
    bench.fill("Jobs of the batch", "5")
    bench.fill("Retries", "0")
    bench.press("Push")
    bench.shows("The number of its jobs needs the batch's name.")
    bench.fill("Batch", "night")
    bench.press("Push")
    bench.shows("2 pushed:")
    bench.visit("#/default/batches")
    bench.shows("1 of 1.", "night", "40 % of 5", "waiting for jobs")
    slow = [{"url": f"{bench.origin}/slow/{n}?size=6000000&rate=100000", "id": f"slow-{n}", "connections": 1, "batch": "night"} for n in range(3)]
    bench.ask("queues/default/jobs", slow)
    bench.driver.find_element(By.LINK_TEXT, "night").click()
    bench.shows("Batch night", "It is pending.", "40 % of 5 ended.", "5 jobs")
    batch = lambda: bench.ask("queues/default/batches/night")
    states = lambda: {bench.ask(f"queues/default/jobs/slow-{n}")["state"] for n in range(3)}
    eventually("three to run", lambda: states() == {"running"})
    bench.press("Pause")
    bench.notices("Pause: asked for 3 jobs.")
    bench.shows("It is to be paused.")
    eventually("three to be paused", lambda: states() == {"paused"})
    bench.driver.find_element(By.LINK_TEXT, "paused").click()
    bench.shows("Jobs: paused", "3 found among", "slow-0", "batch night")
    bench.driver.find_element(By.LINK_TEXT, "night").click()
    bench.press("Resume")
    bench.notices("Resume: asked for 3 jobs.")
    eventually("three to run again", lambda: states() == {"running"})
    bench.driver.find_element(By.LINK_TEXT, "running").click()
    bench.shows("3 found among")
    bench.driver.find_element(By.LINK_TEXT, "slow-1").click()
    bench.shows("It is running", "night")
    bench.driver.find_element(By.LINK_TEXT, "night").click()
    bench.shows("It is pending.")
    bench.press("Cancel")
    bench.press("Keep as it is", "dialog")
    assert batch().get("wanted") is None
    bench.press("Cancel")
    bench.shows("Cancel every job of the batch that has not ended, and those that still come", inside="dialog")
    bench.press("Yes, cancel", "dialog")
    bench.notices("Cancel: asked for 3 jobs.")
    bench.shows("It is over, with failures.", "100 % of 5 ended.")
    assert states() == {"cancelled"} and batch()["round"] == 1, batch()
    bench.press("Retry")
    bench.notices("Retry: asked for 1 job.")
    eventually("it to fail again", lambda: batch()["round"] == 2 and batch()["failed"] == 1)
    bench.driver.find_element(By.PARTIAL_LINK_TEXT, "failed").click()
    bench.shows("Jobs: failed", "1 found among", "http_404")
    bench.visit("#/default/batches/none")
    bench.shows("It is not known.", "No worker has seen a job of it yet")
    bench.end(worker)


def test_a_job_that_no_worker_has_seen(bench):
    elements = [json.dumps({"url": f"{bench.origin}/line/{n}", "id": f"line-{n:05}"}) for n in range(5000)]
    bench.redis("--pipe", text="".join(f"LPUSH haul:{{empty}}:jobs '{element}'\n" for element in elements))
    bench.visit("#/empty/jobs/running?q=line-04999")
    bench.shows("The job line-04999 is queued.", "No job matches.")
    bench.visit("#/empty/jobs/queued?q=/line/4998")
    bench.shows("1 found among 5,000.", "line-04998")
    bench.driver.find_element(By.LINK_TEXT, "line-04998").click()
    bench.shows("It is queued", "No worker has seen it yet.", "/line/4998")
    bench.visit("#/empty/job/line-05000")
    bench.shows("It is not known", "No worker has seen it, or it has been removed.")
    bench.redis("DEL", "haul:{empty}:jobs")


def test_a_request_and_what_the_server_answered(bench):
    worker = bench.worker("caller")
    bench.visit("#/default/push")
    bench.fill("URLs", f"{bench.origin}/echo?name=%3Cb%3E")
    bench.fill("Path", "kept/while/another/kind/is/looked/at")
    bench.select("Kind", "request")
    labels = lambda: [label.text.split("\n")[0] for label in bench.driver.find_elements(By.CSS_SELECTOR, "main label")]
    assert not any(label.startswith("Path") for label in labels()), labels()
    bench.select("Method", "PUT")
    bench.fill("Id", "call")
    bench.fill("Query", "page=2\nname=a=b")
    bench.fill("Body: JSON", '{"film":7')
    bench.fill("Statuses", "200-204, 409")
    bench.press("Push")
    bench.shows("The body is not JSON.")
    bench.fill("Body: JSON", '{"film":7}')
    bench.press("Push")
    bench.shows("1 pushed:", "call")
    bench.driver.find_element(By.LINK_TEXT, "call").click()
    bench.shows("The request is completed", "What the server answered", "Status 200", "x-hostile", HOSTILE)
    said = json.loads(bench.driver.find_element(By.CSS_SELECTOR, "section:not([hidden]) > pre[aria-label^=Body]").text)
    assert said["method"] == "PUT" and said["body"] == '{"film":7}' and said["path"].endswith("&page=2&name=a%3Db"), said
    assert "What is on the disk" not in bench.text() and "Delete the file" not in bench.text()
    bench.visit("#/default/jobs/completed?q=/echo")
    bench.shows("1 found", "PUT http", "status 200")
    bench.ask("queues/default/jobs", {"kind": "request", "url": f"{bench.origin}/bytes", "id": "bytes", "method": "GET"})
    bench.visit("#/default/job/bytes")
    bench.shows("The body is not text: 3 bytes, here in base 64.", "AP8B")
    bench.ask("queues/default/jobs", {"kind": "request", "url": f"{bench.origin}/missing", "id": "refused", "retries": 0})
    bench.visit("#/default/job/refused")
    bench.shows("The request is failed", "http_404", "Status 404", "It has no body.")
    bench.visit("#/default/push")
    bench.select("Kind", "download")
    bench.shows("Path; ends in / for a directory")
    bench.end(worker)


def test_an_upload_and_its_files(bench):
    worker = bench.worker("sender")
    for name in ["one.bin", "two.bin"]:
        (bench.root / name).write_bytes(b"x" * 3000)
    bench.visit("#/default/push")
    bench.select("Kind", "upload")
    bench.fill("URLs", f"{bench.origin}/echo/")
    bench.fill("Id", "sent")
    bench.fill("Or files", "one.bin\ntwo.bin")
    bench.select("Each file", "true")
    bench.select("Protocol", "tus")
    bench.press("Push")
    bench.shows("protocol: requires file")
    bench.select("Protocol", "")
    bench.press("Push")
    bench.shows("1 pushed:", "sent")
    bench.driver.find_element(By.LINK_TEXT, "sent").click()
    bench.shows("The upload is completed", "100 % of 5.9 KiB sent", "Its files", "one.bin", "two.bin", "sent, status 200", "What the server answered")
    assert "What is on the disk" not in bench.text() and "Delete the file" not in bench.text()
    bench.visit("#/default/jobs/completed?q=sent")
    bench.shows("1 found", "upload", "status 200")
    bench.ask("queues/default/settings", {"max_responses_bytes": 0}, "PATCH")
    bench.ask("queues/default/jobs", {"kind": "upload", "url": f"{bench.origin}/echo", "id": "gone", "file": "one.bin"})
    bench.visit("#/default/job/gone")
    bench.shows("The upload is completed", "Status 200", "The response was dropped")
    bench.ask("queues/default/settings", {"max_responses_bytes": None}, "PATCH")
    bench.end(worker)


def test_defaults_and_limits_of_hosts(bench):
    bench.visit("#/default/settings")
    bench.fill("Base of relative", "https://example.org/films/")
    bench.press("Set the base")
    bench.notices("The base is set.")
    bench.fill("Field of a job", "url")
    bench.fill("Its default", "x")
    bench.press("Set the default")
    bench.notices("url can have no default. Nothing was set.")
    bench.fill("Field of a job", "retries")
    bench.fill("Its default", "-1")
    bench.press("Set the default")
    bench.notices("defaults.retries must be")
    bench.fill("Its default", "2")
    bench.press("Set the default")
    bench.shows("retries", "Remove")
    bench.fill("Host, perhaps", "slow.example")
    bench.fill("Most jobs at work", "3")
    bench.fill("Starts there, like", "30/min")
    bench.press("Set the limit")
    bench.shows("slow.example", '{"connections":3,"starts":"30/min"}')
    bench.fill("Bytes per second", "1000000")
    bench.press("Set")
    bench.shows("The fleet receives and sends 977 KiB in a second.")
    found = bench.ask("queues/default/settings")
    assert found == {"paused": False, "rate": 1000000, "base": "https://example.org/films/", "defaults": {"retries": 2}, "limits": {"slow.example": {"connections": 3, "starts": "30/min"}}}, found
    bench.fill("Bytes per second", "")
    bench.press("Set")
    bench.notices("It is set.")
    for what in ["Remove the default of retries", "Remove the limit of slow.example"]:
        bench.driver.find_element(By.CSS_SELECTOR, f"button[aria-label='{what}']").click()
        eventually("it to be removed", lambda: not bench.driver.find_elements(By.CSS_SELECTOR, f"button[aria-label='{what}']"))
    bench.fill("Base of relative", "")
    bench.press("Set the base")
    eventually("nothing to be set", lambda: bench.ask("queues/default/settings") == {"paused": False})


def test_hostile_texts_stay_texts(bench):
    worker = bench.worker("four")
    job = {
        "url": f"{bench.origin}/x?size=1000&name=%3Cimg%20src%3Dx%20onerror%3Dwindow.hacked%3D1%3E.bin", "id": "hostile",
        "path": f"{HOSTILE.replace('/', '-')}/", "meta": {HOSTILE: [HOSTILE]}, }
    bench.ask("queues/default/jobs", job)
    bench.ask("queues/default/jobs", {"url": f"{bench.origin}/missing/<b>{HOSTILE.replace(' ', '+')}", "id": "hostile2", "retries": 0, "headers": {"X-Evil": HOSTILE}})
    bench.redis("LPUSH", "haul:{default}:jobs", HOSTILE)
    bench.redis("LPUSH", "haul:{default}:jobs", '{"url":"javascript:window.hacked=1"}')
    bench.redis("PUBLISH", "haul:{default}:events:hostile", '{"event":"<img src=x onerror=window.hacked=1>","id":"hostile","at":1,"seq":1}\n\ndata: x')
    eventually("both to end", lambda: bench.ask("queues/default/jobs/hostile")["ended"] and bench.ask("queues/default/jobs/hostile2")["ended"])
    bench.visit("#/default/job/hostile")
    bench.shows("It is completed", "<script>window.hacked=1<-script>", "onerror=window.hacked=1>.bin")
    bench.visit("#/default/job/hostile2")
    bench.shows("http_404")
    bench.press("Show it, with its secrets")
    bench.shows("X-Evil")
    bench.visit("#/default/rejected")
    bench.shows(HOSTILE, "javascript:window.hacked=1")
    for page in ["jobs/completed", "jobs/failed", "job/hostile2", "overview", f"jobs/failed?q={HOSTILE}", f"{HOSTILE}"]:
        bench.visit(f"#/default/{page}")
        time.sleep(0.5)
        assert bench.driver.execute_script("return window.hacked") is None, page
    assert bench.driver.execute_script("return document.querySelectorAll('img, main script').length") == 0
    bench.end(worker)


def test_one_among_many(bench):
    bench.visit("#/many/jobs/running")
    bench.shows("1 to 100 of 10,000")
    begun = time.monotonic()
    bench.fill("Search", "running-07777")
    bench.press("Search")
    bench.shows("The job running-07777 is running.")
    print(f"    found by its id in {time.monotonic() - begun:.2f} s")
    bench.visit("#/many/jobs/running?q=9876.bin")
    bench.shows("1 found among 10,000.", "running-09876")
    bench.visit("#/many/jobs/running")
    bench.shows("1 to 100 of 10,000")
    bench.driver.find_element(By.LINK_TEXT, "Next page").click()
    bench.shows("101 to 200 of 10,000")


SEARCH = """
const [place, text, done] = arguments;
const begun = performance.now();
const look = () => {
  if (!document.querySelector("main").textContent.includes(text)) return;
  observer.disconnect();
  done(performance.now() - begun);
};
const observer = new MutationObserver(look);
observer.observe(document.body, { subtree: true, childList: true, characterData: true });
location.hash = place;
"""


def test_a_search_among_many_is_quick(bench):
    """Measures a search: from the input to the result in the browser, and by the API alone."""
    page, api = [], []
    for number in [9876, 17, 5000, 9999, 4321, 1234, 7777]:
        bench.visit("#/many/jobs/running")
        bench.shows("1 to 100 of 10,000")
        page.append(bench.driver.execute_async_script(SEARCH, f"#/many/jobs/running?q=/{number}.bin", "1 found among 10,000."))
        begun, place, calls, found = time.monotonic(), 0, 0, []
        while place is not None:
            answer = bench.ask(f"queues/many/jobs?state=running&q=/{number}.bin&from={place}")
            found += [job["id"] for job in answer["jobs"]]
            place, calls = answer.get("next"), calls + 1
        api.append(1000 * (time.monotonic() - begun))
        assert found == [f"running-{number:05}"], found
    page.sort(), api.sort()
    print(f"    one among 10,000 running jobs: on the page {page[3]:.0f} ms (most {page[-1]:.0f}), by the API {api[3]:.0f} ms in {calls} calls (most {api[-1]:.0f})")
    # The quickest counts: other programs on this machine delay the rest.
    assert page[0] < 1000, page


def test_the_history_is_drawn(bench):
    worker = bench.worker("historian")
    known = bench.redis("HGET", "haul:{default}:totals", "completed") or "0"
    for number in range(3):
        bench.ask("queues/default/jobs", {"url": f"{bench.origin}/h{number}?size=1000", "id": f"history-{number}"})
    eventually("the ticks", lambda: int(bench.redis("HGET", "haul:{default}:totals", "completed") or 0) >= int(known) + 3)
    total = int(bench.redis("HGET", "haul:{default}:totals", "completed"))
    bench.visit("#/default/overview")
    bench.shows("History", f"completed {total:,}", "in a minute")
    lines = lambda: [path.get_attribute("d") for path in bench.driver.find_elements(By.CSS_SELECTOR, ".card.full svg.chart path")]
    assert len(lines()) == 5 and all(line.count("L") == 59 for line in lines()), lines()
    bench.driver.find_element(By.XPATH, "//label[contains(., 'Shows')]/select/option[2]").click()
    bench.shows(f"completed {total:,}", "in half an hour")
    assert all(line.count("L") == 95 for line in lines()), lines()
    bench.end(worker)


def test_a_lost_connection_is_told_and_heals(bench):
    bench.visit("#/some/overview")
    bench.shows("300")
    bench.end(bench.web)
    banner = lambda: bench.driver.find_element(By.ID, "connection")
    eventually("the banner", lambda: "The connection is lost" in banner().text)
    bench.redis("HSET", "haul:{some}:settings", "paused", "1")
    bench.serve()
    bench.shows("paused: no job is started")
    eventually("the banner to go", lambda: not banner().is_displayed())
    bench.redis("HDEL", "haul:{some}:settings", "paused")
    bench.complaints()


def test_a_refused_stream_is_explained_and_tried_again(bench):
    """Other pages of this address take all the streams that it may have."""
    bench.driver.get("about:blank")
    taken, refused = [], []
    def is_full():
        """Takes streams until one is refused. Those of the pages before may end meanwhile, so the last refusals count."""
        stream = socket.create_connection(("127.0.0.1", bench.port))
        stream.sendall(b"GET /api/live?watch=queues/some HTTP/1.1\r\nHost: localhost\r\n\r\n")
        if b" 200 " in stream.recv(200):
            taken.append(stream)
            refused.clear()
        else:
            stream.close()
            refused.append(True)
        return len(refused) >= 20
    eventually("all streams to be taken", is_full, within=60)
    bench.visit("#/some/overview")
    banner = lambda: bench.driver.find_element(By.ID, "connection")
    eventually("the reason", lambda: "too many streams are open" in banner().text and "is lost" not in banner().text)
    for stream in taken:
        stream.close()
    bench.shows("300")
    eventually("the banner to go", lambda: not banner().is_displayed())
    bench.complaints()


def test_what_cannot_be_undone_needs_more_than_enter(bench):
    bench.ask("queues/empty/jobs", {"url": f"{bench.origin}/kept", "id": "kept"})
    bench.visit("#/empty/job/kept")
    bench.shows("It is queued")
    bench.press("Cancel")
    bench.shows("Cancel the job kept?", "it cannot be resumed or retried", inside="dialog")
    ActionChains(bench.driver).send_keys(Keys.ENTER).perform()
    eventually("the dialog to close", lambda: not bench.driver.find_elements(By.TAG_NAME, "dialog"))
    assert bench.redis("HLEN", "haul:{empty}:want") == "0"
    bench.redis("DEL", "haul:{empty}:jobs")


def test_names_that_are_odd(bench):
    bench.visit("#/empty/job/no%20id")
    bench.shows("It is not known", "is not a valid job id")
    bench.visit("#/empty/batches/no%20id")
    bench.shows("It is not known", "is not a valid batch name")
    for name in [".", ".."]:
        bench.ask("queues/empty/jobs", {"url": f"{bench.origin}/dots", "id": name})
        bench.visit(f"#/empty/job/{name}")
        bench.shows("It is queued", "/dots")
    bench.redis("DEL", "haul:{empty}:jobs")
    bench.complaints()


def test_many_running_jobs_cost_redis_little(bench):
    bench.visit("#/many/overview")
    bench.shows("10,000")
    bench.driver.switch_to.new_window("tab")
    bench.visit("#/many/jobs/running")
    facts = lambda: {line.split(":")[0]: line.split(":")[1] for line in bench.redis("INFO").splitlines() if ":" in line}
    before, begun = facts(), time.monotonic()
    time.sleep(10)
    after, seconds = facts(), time.monotonic() - begun
    spent = sum(float(after[name]) - float(before[name]) for name in ["used_cpu_sys", "used_cpu_user"])
    commands = (int(after["total_commands_processed"]) - int(before["total_commands_processed"])) / seconds
    print(f"    10,000 running jobs, two open pages: {commands:.0f} commands/s, {100 * spent / seconds:.2f} % of a core in Redis")
    assert commands < 3500, commands
    bench.driver.close()
    bench.driver.switch_to.window(bench.driver.window_handles[0])


def test_a_viewer_sees_no_secret_and_no_button(bench):
    lines = []
    for name, role in [("v", "viewer"), ("o", "operator")]:
        done = subprocess.run([bench.haul, "web", "hash-password", name, "--role", role], input="long pass word\n", capture_output=True, text=True, check=True)
        lines.append(done.stdout)
    accounts = bench.directory / "accounts"
    accounts.write_text("".join(lines))
    bench.ask("queues/one/jobs", {"url": "http://planted:planted@host.example/a?planted=1", "id": "secret", "headers": {"X-Key": "planted"}})
    bench.redis("HSET", "haul:{one}:job:asked", "state", "completed", "kind", "request", "url", "http://h/", "status", "200", "headers", '{"set-cookie":"planted"}', "body", "planted")
    bench.redis("HSET", "haul:{one}:defaults", "headers", '{"X-Key":"planted"}', "base", '"http://planted:planted@h/"')
    bench.redis("HSET", "haul:{one}:limits", "h", '{"connections":1}')
    bench.redis("LPUSH", "haul:{one}:rejected", '{"at":1,"reason":"url: is missing","element":"planted"}')
    bench.end(bench.web)
    bench.serve("--auth", str(accounts))
    place = f"127.0.0.1:{bench.port}"
    bench.driver.get("about:blank")
    bench.driver.get(f"http://v:long%20pass%20word@{place}/healthz")
    bench.driver.get(f"http://v:long%20pass%20word@{place}/")
    for page in ["overview", "jobs/queued", "job/secret", "job/asked", "job/running-00000", "batches", "batches/night", "workers", "rejected", "settings", "push"]:
        bench.visit(f"#/one/{page}")
        time.sleep(0.6)
        assert "planted" not in bench.driver.page_source, page
        buttons = [b.text for b in bench.driver.find_elements(By.CSS_SELECTOR, "main button") if b.is_enabled() and b.text not in ["Search"]]
        assert not buttons, f"{page}: {buttons}"
        if page in ["push", "settings"]:
            assert not bench.driver.find_elements(By.CSS_SELECTOR, "main input, main textarea"), page
    bench.shows("Only operators push jobs.")
    assert "v, viewer" in bench.driver.find_element(By.TAG_NAME, "header").text
    bench.end(bench.web)
    bench.serve()
    bench.driver.get("about:blank")
    bench.complaints()


def test_the_keyboard_is_enough(bench):
    bench.visit("#/default/overview")
    def press(key, backwards=False):
        actions = ActionChains(bench.driver)
        if backwards:
            actions.key_down(Keys.SHIFT)
        actions.send_keys(key)
        if backwards:
            actions.key_up(Keys.SHIFT)
        actions.perform()
    def reach(text, backwards=False):
        for _ in range(40):
            press(Keys.TAB, backwards)
            focus = bench.driver.switch_to.active_element
            if text in (focus.text or focus.get_attribute("aria-label") or ""):
                return focus
        raise AssertionError(f"{text} is not reached by the Tab key")
    reach("Push", True)
    press(Keys.ENTER)
    bench.shows("URLs, one on each line")
    for _ in range(40):
        press(Keys.TAB)
        if bench.driver.switch_to.active_element.tag_name == "textarea":
            break
    press(f"{bench.origin}/keys.bin")
    reach("Push")
    press(Keys.ENTER)
    bench.shows("1 pushed:")


def test_nothing_is_inaccessible(bench):
    for queue, page in [("default", page) for page in PAGES] + [("default", "job/film"), ("default", "job/call"), ("many", "jobs/running"), ("empty", "overview")]:
        for scheme in ["light", "dark"]:
            bench.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": scheme}]})
            bench.visit(f"#/{queue}/{page}")
            time.sleep(0.8)
            bench.driver.execute_script(AXE)
            result = bench.driver.execute_async_script("axe.run(document, arguments[0]).then(arguments[1])", {"resultTypes": ["violations"]})
            wrong = [f"{v['id']}: {v['nodes'][0]['html'][:200]} {v['nodes'][0].get('failureSummary', '')}" for v in result["violations"]]
            assert not wrong, f"{queue} {page} {scheme}: {wrong}"


def test_no_page_is_wider_than_the_screen(bench):
    for width in [320, 768, 1280, 3840]:
        bench.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False})
        for place in [f"default/{page}" for page in PAGES] + ["default/job/hostile", "default/job/call", "many/jobs/running"]:
            bench.visit(f"#/{place}")
            time.sleep(0.4)
            most = bench.driver.execute_script("return document.documentElement.scrollWidth")
            assert most <= width, f"{place} is {most} wide at {width}"
    bench.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_the_console_has_no_complaint(bench):
    wrong = [text for text in bench.complaints() if "404" not in text]
    assert not wrong, wrong


def screenshots(bench, directory):
    directory.mkdir(parents=True, exist_ok=True)
    pages = [(queue, page) for queue in ["empty", "one", "some", "many"] for page in ["overview", "jobs/running"]]
    pages += [("default", page) for page in PAGES + ["job/hostile", "job/call"]]
    for width in [320, 1280, 3840]:
        bench.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {"width": width, "height": 2160 if width > 3000 else 900, "deviceScaleFactor": 1, "mobile": False})
        for scheme in ["light", "dark"]:
            bench.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": scheme}]})
            for queue, page in pages:
                bench.visit(f"#/{queue}/{page}")
                time.sleep(1.2)
                bench.driver.save_screenshot(str(directory / f"{width}-{scheme}-{queue}-{page.replace('/', '-')}.png"))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("haul")
    parser.add_argument("--screenshots", type=pathlib.Path)
    parser.add_argument("--only", default="", help="parts of tests' names, with commas between them")
    options = parser.parse_args()
    bench = Bench(options.haul)
    failed = 0
    tests = [(name, body) for name, body in globals().items() if name.startswith("test_") and any(part in name for part in options.only.split(","))]
    try:
        bench.serve()
        bench.invent("one", 1)
        bench.invent("some", 300)
        bench.invent("some", 40, "failed")
        bench.invent("many", 10_000)
        bench.browse()
        for name, body in tests:
            begun = time.monotonic()
            try:
                body(bench)
                print(f"passed {name} ({time.monotonic() - begun:.1f} s)", flush=True)
            except Exception:
                failed += 1
                trace = "".join(line for line in traceback.format_exc().splitlines(True) if "<unknown>" not in line)
                print(f"FAILED {name}\n{trace}", flush=True)
        if options.screenshots:
            screenshots(bench, options.screenshots)
    finally:
        bench.close()
    print(f"the slowest call of the API took {1000 * bench.slowest[0]:.0f} ms ({bench.slowest[1]})")
    print(f"{len(tests) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
