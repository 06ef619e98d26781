"""For which jobs the buttons, keys and undos of the page act: tests of browser.py."""

import time

from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By

from bench import eventually
from fresh import leave


def press_key(bench, *names):
    for name in names:
        ActionChains(bench.driver).send_keys(name).perform()


def select_rows(bench, number):
    """Ticks the first rows of a list, and returns their ids."""
    rows = lambda: bench.driver.find_elements(By.CSS_SELECTOR, ".list tbody tr:not(.spacer):not(.blank)")
    eventually("rows", lambda: len(rows()) >= number)
    ids = []
    for row in rows()[:number]:
        ids.append(row.find_element(By.CSS_SELECTOR, ".file a").get_attribute("href").rsplit("/", 1)[-1])
        bench.driver.execute_script("arguments[0].click()", row.find_element(By.TAG_NAME, "input"))
    bench.shows(f"{number} selected", inside="#floating")
    return ids


def wanted(bench, queue):
    """The control operations that no worker has applied, by job."""
    words = bench.redis("HGETALL", f"haul:{{{queue}}}:want").split()
    return dict(zip(words[::3], words[1::3]))


def test_an_undo_is_only_for_the_jobs_that_the_action_was_for(bench):
    bench.visit("#/long/jobs/failed?view=list")
    bench.shows("of 1,200")
    ids = select_rows(bench, 3)
    score = bench.redis("ZSCORE", "haul:{long}:failed", ids[1])
    leave(bench, "long", ids[1], "paused")
    bench.redis("ZREM", "haul:{long}:failed", ids[1])
    bench.press("Retry", "#floating")
    bench.notices("2 jobs run again from their bytes on disk. 1 is no longer failed.")
    assert wanted(bench, "long") == {ids[0]: "running", ids[2]: "running"}
    bench.press("Pause them", "#floating")
    bench.notices("2 jobs are being paused.")
    assert wanted(bench, "long") == {ids[0]: "paused", ids[2]: "paused"}
    bench.redis("DEL", "haul:{long}:want", "haul:{long}:paused")
    bench.redis("HSET", f"haul:{{long}}:job:{ids[1]}", "state", "failed")
    bench.redis("ZADD", "haul:{long}:failed", score, ids[1])


def test_no_key_and_no_undo_starts_a_scheduled_job(bench):
    due = str(int(time.time() * 1000) + 86_400_000)
    bench.redis("HSET", "haul:{lost}:job:tomorrow", "state", "scheduled", "url", "http://h.example/tomorrow.bin")
    bench.redis("ZADD", "haul:{lost}:scheduled", due, "tomorrow")
    bench.visit("#/lost/jobs/scheduled")
    bench.shows("tomorrow.bin")
    assert "pause" in bench.text(".list-foot").lower() and "resume" not in bench.text(".list-foot").lower()
    press_key(bench, "j", "s")
    bench.notices("1 job is being paused.")
    assert wanted(bench, "lost") == {"tomorrow": "paused"} and "Resume it" not in bench.text("#floating")
    bench.redis("DEL", "haul:{lost}:want")
    bench.visit("#/lost/job/tomorrow")
    bench.shows("About this job")
    press_key(bench, "s")
    bench.notices("1 job is being paused.")
    assert wanted(bench, "lost") == {"tomorrow": "paused"} and "Resume it" not in bench.text("#floating")
    # The key means nothing for a job that has ended.
    leave(bench, "lost", "tomorrow")
    bench.redis("DEL", "haul:{lost}:want", "haul:{lost}:scheduled")
    bench.visit("#/lost/jobs/completed")
    bench.visit("#/lost/job/tomorrow")
    bench.shows("Completed")
    press_key(bench, "s")
    bench.visit("#/lost/overview")
    assert wanted(bench, "lost") == {}
    bench.redis("DEL", "haul:{lost}:completed", "haul:{lost}:job:tomorrow")


def test_what_starts_again_elsewhere_is_each_job_that_was_paused_for_it(bench):
    bench.invent("renewals", 3)
    bench.visit("#/renewals/jobs/running")
    obeyed, silent, failed = select_rows(bench, 3)
    bench.press("Start again elsewhere", "#floating")
    bench.notices("3 jobs are put back")
    bench.redis("HDEL", "haul:{renewals}:want", obeyed)
    leave(bench, "renewals", failed, "failed")
    leave(bench, "renewals", obeyed, "paused")
    eventually("the resume of the paused job", lambda: wanted(bench, "renewals").get(obeyed) == "running")
    # The pause of a job whose worker has not obeyed is withdrawn in the end.
    eventually("the end", lambda: wanted(bench, "renewals") == {obeyed: "running", silent: "running", failed: "paused"}, within=60)
    for key in ["want", "leases", "failed", "paused"]:
        bench.redis("DEL", f"haul:{{renewals}}:{key}")


def test_a_form_that_is_sent_twice_pushes_once(bench):
    bench.visit("#/lost/push")
    bench.fill("URL", "http://h.example/once.bin")
    bench.driver.execute_script("const form = document.querySelector('dialog form'); form.requestSubmit(); form.requestSubmit();")
    bench.shows("1 job pushed", inside="dialog")
    bench.visit("#/lost/overview")
    assert bench.redis("LLEN", "haul:{lost}:jobs") == "1"
    bench.redis("DEL", "haul:{lost}:jobs")


def test_batches_are_counted_and_kept_as_the_queue_says(bench):
    bench.redis("HSET", "haul:{lost}:settings", "keep_failed", "3600")
    bench.redis("ZADD", "haul:{lost}:batches", "1", "expired", "2", "known")
    bench.redis("HSET", "haul:{lost}:batch:known", "created", "2", "completed", "3")
    bench.visit("#/lost/batches")
    bench.shows("1 in all", "A batch is kept for 1 h after its last job ended.")
    bench.redis("DEL", "haul:{lost}:settings", "haul:{lost}:batches", "haul:{lost}:batch:known")


def test_the_answer_about_a_job_that_was_left_changes_nothing(bench):
    bench.redis("LPUSH", "haul:{some}:jobs", '{"url":"http://h.example/unseen.bin","id":"unseen"}')
    bench.visit("#/some/overview")
    with bench.holding("line=true") as wait:
        bench.visit("#/some/job/unseen")
        bench.shows("No worker has seen it, or it has been removed.")
        wait()
        bench.visit("#/some/job/running-00007")
        bench.shows("Downloading", "About this job")
    title = bench.driver.title
    press_key(bench, "s")
    bench.notices("1 job is being paused.")
    assert (wanted(bench, "some"), title) == ({"running-00007": "paused"}, "7.bin · Haul"), (wanted(bench, "some"), title)
    bench.redis("DEL", "haul:{some}:want", "haul:{some}:jobs")


def test_no_dialog_opens_for_a_job_that_was_left(bench):
    bench.visit("#/some/job/failed-00003")
    bench.shows("About this job")
    with bench.holding("/pushed") as wait:
        bench.press("Push with a new URL…")
        wait()
        bench.visit("#/some/overview")
        bench.shows("Bytes received")
    assert not bench.driver.find_elements(By.TAG_NAME, "dialog"), bench.text("dialog")


def test_a_retry_of_more_failures_than_are_counted_asks_first(bench):
    jobs = range(1200)
    bench.redis("--pipe", text="".join(f"HSET haul:{{renewals}}:job:failed-{number:05} retryable 1\n" for number in jobs))
    bench.invent("renewals", len(jobs), "failed")
    bench.visit("#/renewals/overview")
    bench.shows("1,200")
    for page in ["overview", "jobs/failed"]:
        bench.visit(f"#/renewals/{page}")
        bench.press("Retry all")
        bench.shows("Retry every job that matches?", inside="dialog")
        bench.press("Leave them", "dialog")
    assert wanted(bench, "renewals") == {}
    bench.visit("#/renewals/job/failed-01199")
    bench.shows("At least ", "Show all")
    bench.redis("DEL", "haul:{renewals}:failed")


def test_actions_on_a_batch_name_its_newest_numbers(bench):
    bench.redis("ZADD", "haul:{lost}:batches", "1", "grows")
    bench.redis("HSET", "haul:{lost}:batch:grows", "created", "2", "pending", "10")
    for page in ["batches", "batches/grows"]:
        bench.redis("HSET", "haul:{lost}:batch:grows", "pending", "10")
        bench.visit(f"#/lost/{page}")
        bench.shows("10 jobs still to end")
        bench.redis("HSET", "haul:{lost}:batch:grows", "pending", "50010")
        bench.shows("50,010 jobs still to end")
        if page == "batches":
            bench.click("button[aria-label='More for grows']")
        bench.press("Cancel…")
        bench.shows("50,010 jobs and those that still come are cancelled", inside="dialog")
        bench.press("Keep them", "dialog")
        # From 1,000 jobs on other actions ask as well.
        bench.press("Pause")
        bench.shows("Pause 50,010 jobs?", inside="dialog")
        bench.press("Leave them", "dialog")
    bench.redis("DEL", "haul:{lost}:batches", "haul:{lost}:batch:grows")


def test_a_schedule_that_is_replaced_is_known_by_its_newest_name(bench):
    bench.visit("#/lost/schedules")
    bench.shows("There are no schedules.")
    bench.press("Add a schedule")
    bench.ask("queues/lost/schedules", {"action": "add", "name": "nightly", "schedule": {"every": 3600, "job": {"url": "http://h.example/"}}})
    bench.shows("1 schedule.")
    bench.fill("Name", "nightly")
    bench.shows("will be replaced", inside="dialog")
    bench.press("Close", "dialog")
    bench.ask("queues/lost/schedules", {"action": "remove", "name": "nightly"})


def test_a_question_about_rows_that_were_not_read_knows_a_part_of_their_bytes(bench):
    bench.visit("#/long/jobs/failed?view=list")
    bench.shows("of 1,200")
    select_rows(bench, 3)
    bench.press("Remove…", "#floating")
    bench.shows("Remove 3 jobs and forget them?", " on disk are deleted", inside="dialog")
    assert "At least" not in bench.text("dialog"), bench.text("dialog")
    bench.press("Keep them", "dialog")
    bench.press("Select all 1,200", "#floating")
    bench.press("Remove…", "#floating")
    bench.shows("Remove 1,200 jobs and forget them?", "At least ", " on disk are deleted", inside="dialog")
    bench.press("Keep them", "dialog")
    bench.press("Only these rows", "#floating")
    bench.click("button[aria-label='Clear the selection']")
