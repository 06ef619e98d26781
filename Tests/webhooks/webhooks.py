"""Receives the webhooks of a real worker and verifies them with the reference library. See run.sh."""
import base64
import http.server
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import threading
import time

from standardwebhooks.webhooks import Webhook, WebhookVerificationError

HAUL = sys.argv[1]
KEYS = ["whsec_" + base64.b64encode(os.urandom(32)).decode() for _ in range(2)]


class Receiver(http.server.BaseHTTPRequestHandler):
    """/hook verifies and collects; its first request of each id gets 503. Everything else is a file, or 404."""

    protocol_version = "HTTP/1.1"
    received, refused, seen = [], [], set()

    def answer(self, status, body=b""):
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        self.answer(404) if "missing" in self.path else self.answer(200, b"x" * 1000)

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        headers = {name.lower(): value for name, value in self.headers.items()}
        try:
            # A receiver that knows only one of the two keys accepts the request.
            for key in KEYS:
                event = Webhook(key).verify(body, headers)
        except WebhookVerificationError as error:
            self.refused.append(str(error))
            return self.answer(401)
        if headers["webhook-id"] not in self.seen:
            self.seen.add(headers["webhook-id"])
            return self.answer(503)
        self.received.append((headers["webhook-id"], event))
        self.answer(204)

    def log_message(self, *_):
        pass


def eventually(what, condition, within=60.0):
    deadline = time.monotonic() + within
    while not condition():
        assert time.monotonic() < deadline, f"not within {within} s: {what}"
        time.sleep(0.05)


def main():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    origin = f"http://127.0.0.1:{server.server_port}"
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        socket, secret = folder / "redis.sock", folder / "billing"
        secret.write_text("\n".join(KEYS) + "\n")
        (folder / "files").mkdir()
        redis = subprocess.Popen(
            ["redis-server", "--port", "0", "--unixsocket", str(socket), "--save", "", "--dir", str(folder)],
            stdout=subprocess.DEVNULL)
        eventually("Redis", socket.exists)
        worker = subprocess.Popen(
            [HAUL, "worker", "--redis", f"unix://{socket}", "--root", str(folder / "files"), "--allow-address",
             "127.0.0.0/8", "--webhook-secret", f"billing={secret}", "--log-level", "error"])
        try:
            check(lambda *words: subprocess.run(
                ["redis-cli", "-s", str(socket), *words], check=True, capture_output=True, text=True).stdout.strip(),
                origin)
        finally:
            for process in (worker, redis):
                process.send_signal(signal.SIGTERM)
            assert worker.wait(30) == 0
            redis.wait(30)
    server.shutdown()
    print(f"{len(Receiver.received)} webhooks were verified by standardwebhooks")


def check(cli, origin):
    notify = {"url": f"{origin}/hook?key=1", "secret": "billing"}
    cli("HSET", "haul:{default}:defaults", "notify", json.dumps(notify))
    batch = {"name": "night", "size": 3}
    jobs = [
        {"id": "good", "url": f"{origin}/good", "batch": batch, "meta": {"é": 1.50}},
        {"id": "bad", "url": f"{origin}/missing", "batch": batch},
        {"id": "late", "url": f"{origin}/late", "delay": 60, "deadline": 0.1, "batch": batch},
        {"id": "own", "url": f"{origin}/own", "notify": {**notify, "events": ["failed"]}},
        {"id": "none", "url": f"{origin}/none", "notify": False},
        {"id": "next", "url": f"{origin}/next", "notify": False,
         "then": {"kind": "request", "url": f"{origin}/hook", "json": {"done": "${id}"}, "webhook": "billing"}},
    ]
    for job in jobs:
        cli("LPUSH", "haul:{default}:jobs", json.dumps(job))
    eventually("five webhooks", lambda: len(Receiver.received) >= 5 or Receiver.refused)
    eventually("the queue to be empty", lambda: cli("ZCARD", "haul:{default}:leases") == "0")
    assert not Receiver.refused, Receiver.refused
    events = [event for _, event in Receiver.received]
    ends = sorted((event.get("id") or event.get("batch") or "", event.get("event") or "step") for event in events)
    assert ends == [("", "step"), ("bad", "failed"), ("good", "completed"), ("late", "failed"), ("night", "batch_ended")], ends
    assert next(event for event in events if event.get("id") == "good")["meta"] == {"é": 1.5}
    assert len({id for id, _ in Receiver.received}) == 5
    # A changed body, a changed id and another key are refused, so the receiver really verifies.
    wrong = Webhook("whsec_" + base64.b64encode(os.urandom(32)).decode())
    try:
        wrong.verify(b"{}", {"webhook-id": "a", "webhook-timestamp": str(int(time.time())), "webhook-signature": "v1,AA=="})
    except WebhookVerificationError:
        return
    raise AssertionError("a wrong signature was accepted")


main()
