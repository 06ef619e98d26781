"""Real programs for the browser's tests: Redis, workers, `haul web`, Chromium. `close` ends all of them."""

import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import urllib.request

from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import Select

import origin


def eventually(what, condition, within=20):
    """Waits until `condition` is true, and returns its value. An exception of `condition` counts as false."""
    end = time.monotonic() + within
    trouble = None
    while time.monotonic() < end:
        try:
            value = condition()
            if value:
                return value
        except Exception as error:
            trouble = error
        time.sleep(0.05)
    raise AssertionError(f"{what} did not come true in {within} s ({trouble})")


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Bench:
    def __init__(self, haul):
        self.haul = haul
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="haul-web-"))
        self.root = self.directory / "root"
        self.root.mkdir()
        self.processes = []
        self.origin = origin.serve()
        self.socket = self.directory / "redis"
        self.start("redis-server", "--port", "0", "--unixsocket", str(self.socket), "--save", "", "--dir", str(self.directory))
        eventually("Redis", lambda: self.redis("PING") == "PONG")
        self.port = free_port()
        self.web = None
        self.driver = None
        self.slowest = (0, "")

    def start(self, *command):
        log = open(self.directory / f"{len(self.processes)}.log", "w")
        process = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        self.processes.append(process)
        return process

    def end(self, process):
        process.send_signal(signal.SIGTERM)
        process.wait(30)

    def close(self):
        if self.driver:
            self.driver.quit()
        for process in reversed(self.processes):
            if process.poll() is None:
                process.kill()
                process.wait()
        shutil.rmtree(self.directory, ignore_errors=True)

    def redis(self, *arguments, text=None):
        done = subprocess.run(
            ["redis-cli", "-s", str(self.socket), *arguments], input=text, capture_output=True, text=True, check=True)
        return done.stdout.strip()

    def command(self, *arguments):
        """Runs a haul command to its end."""
        done = subprocess.run([self.haul, *arguments], env={**os.environ, "HAUL_REDIS": f"unix://{self.socket}"}, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr

    def worker(self, name, *more, lease="2"):
        return self.start(
            self.haul, "worker", "--redis", f"unix://{self.socket}", "--root", str(self.root), "--upload-from", str(self.root),
            "--name", name,
            "--allow-address", "127.0.0.0/8", "--lease", lease, *more)

    def spent(self):
        """The CPU seconds of Redis so far."""
        facts = dict(line.split(":", 1) for line in self.redis("INFO", "cpu").splitlines() if ":" in line)
        return float(facts["used_cpu_sys"]) + float(facts["used_cpu_user"])

    def resident(self, process):
        """The resident memory in MB."""
        status = pathlib.Path(f"/proc/{process.pid}/status").read_text()
        return int(next(line for line in status.splitlines() if line.startswith("VmRSS")).split()[1]) * 1024 / 1e6

    def serve(self, *more):
        self.serve_queues(["default", "empty", "one", "some", "many"], *more)

    def serve_queues(self, queues, *more):
        self.web = self.start(
            self.haul, "web", "--redis", f"unix://{self.socket}", "--listen", f"127.0.0.1:{self.port}", *more,
            *[part for queue in queues for part in ("--queue", queue)])
        eventually("haul web", lambda: urllib.request.urlopen(f"http://127.0.0.1:{self.port}/healthz").status == 200)

    def ask(self, path, body=None, method=None):
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}/api/{path}", method=method,
            data=None if body is None else json.dumps(body).encode(), headers={"Content-Type": "application/json"})
        begun = time.monotonic()
        with urllib.request.urlopen(request) as answer:
            result = json.load(answer)
        self.slowest = max(self.slowest, (time.monotonic() - begun, path))
        return result

    def invent(self, queue, count, state="running"):
        """Writes `count` jobs that no worker runs, as a fleet elsewhere would write them."""
        now = int(time.time() * 1000)
        index = "leases" if state == "running" else state
        lines = []
        for number in range(count):
            name = f"{state}-{number:05}"
            key = f"haul:{{{queue}}}:job:{name}"
            error = f'error {["http_404", "dns", "connect"][number % 3]} message "the server said no"' if state == "failed" else ""
            total = 1_000_000 + number * 997
            lines.append(
                f'HSET {key} state {state} url "http://host{number % 7}.example/files/{number}.bin?[masked]" '
                f"received {total * (number % 100) // 100} total {total} speed {number % 50 * 10_000} worker w{number % 9} "
                f"created {now - number * 1000} started {now - number * 900} updated {now} attempt 0 {error}")
            lines.append(f"ZADD haul:{{{queue}}}:{index} {now + 3_600_000 + number} {name}")
        self.redis("--pipe", text="\n".join(lines) + "\n")

    # The browser.

    def browse(self):
        options = webdriver.ChromeOptions()
        options.binary_location = shutil.which("chromium") or shutil.which("chromium-browser") or ""
        for argument in ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--window-size=1280,900"]:
            options.add_argument(argument)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        service = webdriver.ChromeService(executable_path=shutil.which("chromedriver"))
        self.driver = webdriver.Chrome(options=options, service=service)
        self.driver.set_page_load_timeout(20)
        return self.driver

    def visit(self, place=""):
        """Shows a page of `haul web`, and waits until its title is there."""
        self.driver.get(f"http://127.0.0.1:{self.port}/{place}")
        # Use a script: an element that the driver has found stays in the page's memory.
        eventually("the page", lambda: self.driver.execute_script("return document.querySelector('main h1')?.textContent"))

    def text(self, inside="main"):
        return self.driver.find_element(By.TAG_NAME, inside).text

    def shows(self, *texts, within=15, inside="main"):
        def missing():
            page = self.text(inside)
            return [text for text in texts if text not in page]
        try:
            eventually(f"{texts} on the page", lambda: not missing(), within)
        except AssertionError as error:
            raise AssertionError(f"{error}; missing {missing()}; the page says:\n{self.text()[:1500]}") from None

    def choose(self, label):
        """Ticks a box by its label."""
        self.driver.find_element(By.XPATH, f"//label[contains(., '{label}')]/input").click()

    def notices(self, text):
        eventually(f"the notice {text}", lambda: text in self.driver.find_element(By.ID, "notice").text)

    def press(self, name, inside="main"):
        """Presses a button by its name."""
        def button():
            found = [b for b in self.driver.find_elements(By.CSS_SELECTOR, f"{inside} button") if b.text == name and b.is_enabled() and b.is_displayed()]
            return found and found[0]
        eventually(f"a button {name}", button).click()

    def fill(self, label, text):
        """Writes into the input with this label."""
        for item in self.driver.find_elements(By.CSS_SELECTOR, "main label"):
            if item.text.startswith(label):
                box = item.find_element(By.CSS_SELECTOR, "input, textarea")
                box.clear()
                box.send_keys(text)
                return
        raise AssertionError(f"no field {label}")

    def select(self, label, value):
        """Chooses an entry of the list with this label."""
        box = next(item for item in self.driver.find_elements(By.CSS_SELECTOR, "main label") if item.text.startswith(label))
        Select(box.find_element(By.TAG_NAME, "select")).select_by_value(value)

    def complaints(self):
        """The errors in the browser's console."""
        return [entry["message"] for entry in self.driver.get_log("browser") if entry["level"] == "SEVERE"]
