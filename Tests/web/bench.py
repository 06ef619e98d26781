"""Real programs for the browser's tests: Redis, workers, `haul web`, Chromium. `close` ends all of them."""

import contextlib
import http.client
import http.server
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
import urllib.parse
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


def proxy(upstream_port, port, folder):
    """Serves the page's files from `folder`, and everything else from `haul web`. Returns the server."""
    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_):
            pass

        def relay(self):
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            upstream = http.client.HTTPConnection("127.0.0.1", upstream_port)
            try:
                self.answer(upstream, body)
            except ConnectionRefusedError:
                # `haul web` is being started again, and the browser sees a lost connection.
                self.close_connection = True
            finally:
                upstream.close()

        def answer(self, upstream, body):
            upstream.request(self.command, self.path, body or None, {name: value for name, value in self.headers.items() if name.lower() not in ["host", "origin", "accept-encoding"]})
            answer = upstream.getresponse()
            file = folder / (urllib.parse.urlsplit(self.path).path.lstrip("/") or "index.html")
            # A browser signs in only after a response of 401.
            is_ours = file.is_file() and not self.path.startswith("/api") and answer.status != 401
            local = file.read_bytes() if is_ours else None
            self.send_response(200 if local is not None else answer.status)
            for name, value in answer.getheaders():
                if name.lower() not in ["content-length", "connection", "transfer-encoding", "etag"] and not (local is not None and name.lower() == "content-type"):
                    self.send_header(name, value)
            if local is not None:
                self.send_header("Content-Type", {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}.get(file.suffix, "text/html"))
            self.send_header("Connection", "close")
            self.end_headers()
            self.close_connection = True
            try:
                if local is not None:
                    return self.wfile.write(local)
                while piece := answer.read1(65_536):
                    self.wfile.write(piece)
                    self.wfile.flush()
            except OSError:
                pass

        do_GET = do_POST = do_PATCH = do_HEAD = relay

    class Server(http.server.ThreadingHTTPServer):
        request_queue_size = 200
        allow_reuse_address = True

    server = Server(("127.0.0.1", port), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


PRESS = """
const [name, inside] = arguments;
const nameOf = (button) => {
  const copy = button.cloneNode(true);
  for (const key of copy.querySelectorAll("kbd")) key.remove();
  return copy.textContent.trim();
};
const found = [...document.querySelectorAll(`${inside} button`)].find((button) => nameOf(button) === name && !button.disabled && button.checkVisibility());
found?.click();
return Boolean(found);
"""


# Holds the answers to requests whose path has a certain part.
HOLD = """
const part = arguments[0];
const original = window.fetch;
const held = [];
window.fetch = async (path, options) => {
  const response = await original(path, options);
  if (!String(path).includes(part)) return response;
  const answer = new Response(await response.text(), { status: response.status });
  const read = answer.text.bind(answer);
  const used = new Promise((resolve) => {
    answer.text = async () => {
      const text = await read();
      // The page does at once what it does with the text.
      setTimeout(resolve);
      return text;
    };
  });
  await new Promise((go) => { held.push({ go, used }); });
  return answer;
};
window.held = { held, end: () => { window.fetch = original; for (const { go } of held) go(); return Promise.all(held.map(({ used }) => used)); } };
"""


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
        # Where the page's files come from, if not from the binary; and what serves them then.
        self.page = self.proxy = None
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

    def command(self, *arguments, text=None):
        """Runs a haul command to its end, with `text` as its input."""
        done = subprocess.run(
            [self.haul, *arguments], env={**os.environ, "HAUL_REDIS": f"unix://{self.socket}"}, input=text, capture_output=True, text=True)
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
        self.serve_queues(["default", "empty", "one", "some", "many", "long", "fresh", "far", "lost", "renewals"], *more)

    def serve_queues(self, queues, *more):
        port = free_port() if self.page else self.port
        self.web = self.start(
            self.haul, "web", "--redis", f"unix://{self.socket}", "--listen", f"127.0.0.1:{port}", "--serve-files", str(self.root), *more,
            *[part for queue in queues for part in ("--queue", queue)])
        if self.page:
            if self.proxy:
                self.proxy.shutdown()
                self.proxy.server_close()
            eventually("haul web", lambda: urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz").status == 200)
            self.proxy = proxy(port, self.port, self.page)
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
        """Writes `count` jobs and nine workers that do not exist, as a fleet elsewhere would write them."""
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
        for number in range(9):
            lines.append(f"HSET haul:{{{queue}}}:worker:w{number} state working seen {now + 3_600_000} slots 2000 running {(count + 8 - number) // 9}")
            lines.append(f"ZADD haul:{{{queue}}}:workers {now} w{number}")
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

    def visit(self, path=""):
        """Shows a page of `haul web`, and waits until its title is there."""
        self.driver.get(f"http://127.0.0.1:{self.port}/{path}")
        # Use a script: an element that the driver has found stays in the page's memory.
        eventually("the page", lambda: self.driver.execute_script("return document.querySelector('main h1')?.textContent"))

    def text(self, inside="main"):
        return self.driver.find_element(By.CSS_SELECTOR, inside).text

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
        """Presses a button by its name, which has no keys in it."""
        def pressed():
            return self.driver.execute_script(PRESS, name, inside)
        eventually(f"a button {name}", pressed)

    def click(self, selector):
        """Presses what the selector finds, even if a message floats above it."""
        self.driver.execute_script("arguments[0].click()", eventually(selector, lambda: self.driver.find_element(By.CSS_SELECTOR, selector)))

    def open_folds(self):
        """Opens the folded parts of a dialog."""
        self.driver.execute_script("for (const fold of document.querySelectorAll('dialog details')) fold.open = true")

    def box(self, label, kind):
        """The input with this label, which stands before it or is its name for screen readers."""
        for item in self.driver.find_elements(By.CSS_SELECTOR, "dialog label, main label"):
            if item.text.startswith(label):
                return item.find_element(By.CSS_SELECTOR, kind)
        for item in [item for root in ["dialog", "main"] for item in self.driver.find_elements(By.CSS_SELECTOR, f"{root} :is({kind})")]:
            if (item.get_attribute("aria-label") or "").startswith(label):
                return item
        raise AssertionError(f"no field {label}")

    def fill(self, label, text):
        """Writes into the input with this label."""
        box = self.box(label, "input, textarea")
        box.clear()
        if "\n" in text:
            # As it is pasted: the key Enter would push.
            self.driver.execute_script("arguments[0].value = arguments[1]; arguments[0].dispatchEvent(new Event('input'))", box, text)
        else:
            box.send_keys(text)

    def select(self, label, value):
        """Chooses an entry of the list with this label."""
        Select(self.box(label, "select")).select_by_value(value)

    @contextlib.contextmanager
    def holding(self, part):
        """Keeps the answers to requests of the page whose path has this part. Gives them to the page at the end, and returns
        when it has used them. The result waits until one is kept."""
        self.driver.execute_script(HOLD, part)
        try:
            yield lambda: eventually("an answer", lambda: self.driver.execute_script("return window.held.held.length"))
        finally:
            self.driver.execute_async_script("window.held.end().then(arguments[0])")

    def complaints(self):
        """The errors in the browser's console."""
        return [entry["message"] for entry in self.driver.get_log("browser") if entry["level"] == "SEVERE"]
