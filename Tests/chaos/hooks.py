"""What the origin of a chaos run receives as webhooks: each request for `/hook/…` whose body came whole, with its header
fields and the status of the response. `/hooks` returns them.

By its id a webhook is refused, or its connection ends, when it comes for the first time.
"""
import hashlib
import json
import threading
import time

lock = threading.Lock()
received, seen = [], set()


def all_received():
    with lock:
        return json.dumps(received)


class Receiving:
    """A mixin of the origin's handler."""

    def receive_webhook(self):
        body = self.rfile.read(self.length)
        if len(body) != self.length:
            return
        id = self.headers.get("webhook-id") or ""
        chance = hashlib.sha1(id.encode()).digest()[0]
        with lock:
            is_first = id not in seen
            seen.add(id)
            # A connection that ends behind the body: the sender cannot know whether the event was stored.
            status = 204 if not is_first or chance >= 40 else 503 if chance < 24 else 0
            received.append({
                "path": self.path, "id": id, "timestamp": self.headers.get("webhook-timestamp") or "",
                "signature": self.headers.get("webhook-signature") or "", "body": body.decode(errors="replace"),
                "at": time.time(), "status": status})
        if not status:
            self.close_connection = True
            return self.connection.close()
        self.send_response(status)
        if status != 204:
            self.send_header("Content-Length", "0")
        self.end_headers()
