"""Webhooks of a chaos run (docs/guides/webhooks.md): a share of the jobs names one, and all batches have one by the
queue's defaults. Each end has its webhook, which arrives at least once, is signed rightly, and says what the event of
the end says."""
import base64
import hmac
import json
import os
import re
from collections import Counter

from ledger import Q
from resp import pairs

NAME, ENDS = "billing", ("completed", "failed", "cancelled")
# Members that are left out of a webhook with `response_dropped`.
RESPONSE = {"headers", "body", "body_base64", "response_dropped", "files"}
# The greatest difference between the time of a signature and that of its arrival, in seconds: a worker may be frozen.
TOLERANCE = 45


class Webhooks:
    RULES = "webhooks signed wrongly", "webhooks missing or without their event", "webhooks that say something else"

    def __init__(self, share, directory, origin, pick, foreign):
        self.share, self.origin, self.pick = share, origin, pick
        # A worker with another secret, by its number: the ledger must notice.
        self.foreign = foreign
        self.events, self.counts = {}, Counter()
        self.file = os.path.join(directory, "webhook-secret")
        self.key = os.urandom(32)
        self.secret = base64.b64encode(self.key).decode()
        for name, key in ((self.file, self.key), (self.file + "-foreign", os.urandom(32))):
            with open(name, "w") as file:
                file.write(f"whsec_{base64.b64encode(key).decode()}\n")

    def arguments(self, name, number):
        return ["--webhook-secret", f"{NAME}={self.file}{'-foreign' * self.foreign(number)}"]

    @property
    def default(self):
        """The command that gives all batches a webhook."""
        value = {"url": self.origin.url + "/hook/batches", "secret": NAME, "events": ["batch_ended"]}
        return "HSET", Q + "defaults", "notify", json.dumps(value)

    def give(self, job, spec):
        if self.pick.random() >= self.share:
            return
        events = self.pick.choice([ENDS, ENDS, ("completed",), ("failed", "cancelled")])
        spec["notify"] = {"url": f"{self.origin.url}/hook/{job.id}", "secret": NAME}
        if events != ENDS or self.pick.random() < 0.5:
            spec["notify"]["events"] = list(events)
        self.events[job.id] = events

    # The end.

    def judge(self, run, records):
        received = run.origin.read("/hooks")
        self.counts = Counter(each["status"] for each in received)
        wrong, missing, differ, bodies = [], [], [], {}
        for each in received:
            wrong += self.wrong_signature(each)
            if bodies.setdefault(each["id"], each["body"]) != each["body"]:
                differ.append(f"{each['id']}: it came as {bodies[each['id']]} and as {each['body']}")
        accepted = {each["id"]: json.loads(each["body"]) for each in received if each["status"] == 204}
        self.judge_jobs(run, records, received, accepted, missing, differ)
        self.judge_batches(run, accepted, missing)
        return dict(zip(self.RULES, (wrong, missing, differ)))

    def wrong_signature(self, each):
        text = f"{each['id']}.{each['timestamp']}.{each['body']}".encode()
        right = "v1," + base64.b64encode(hmac.digest(self.key, text, "sha256")).decode()
        if each["signature"] != right:
            return [f"{each['id']}: {each['signature']} instead of {right}"]
        if not re.fullmatch(r"\d+", each["timestamp"]) or abs(int(each["timestamp"]) - each["at"]) > TOLERANCE:
            return [f"{each['id']}: it came at {each['at']:.1f} and is of {each['timestamp']}"]
        return []

    def judge_jobs(self, run, records, received, accepted, missing, differ):
        """Compares the webhooks of jobs with the events on their reply lists."""
        texts, reported = run.ledger.texts, set()
        for id, event in accepted.items():
            if event["event"] == "batch_ended":
                continue
            key = event["id"], event["epoch"], event["seq"]
            # A failover may have lost an end whose webhook was sent.
            if key not in texts:
                if run.topology.KEEPS_ACKNOWLEDGED:
                    missing.append(f"{id}: there is no such end: {event}")
                self.counts["of lost ends"] += 1
                continue
            reported.add(key)
            self.compare(id, event, texts[key], differ)
        for key, text in texts.items():
            job, name = key[0], json.loads(text)["event"]
            if job in records and name in self.events.get(job, ()) and key not in reported:
                tries = [each["status"] for each in received if each["body"] == text]
                missing.append(f"{job}: the webhook of {text} did not arrive: {tries}")

    def compare(self, id, event, text, differ):
        name, own = event["event"], json.loads(text)
        if name not in self.events.get(event["id"], ()):
            differ.append(f"{id}: {event['id']} has no webhook for {name}")
        if {k: v for k, v in event.items() if k not in RESPONSE} != {k: v for k, v in own.items() if k not in RESPONSE}:
            differ.append(f"{id}: it says {event}, and the event was {own}")

    def judge_batches(self, run, accepted, missing):
        rounds = {}
        for event in accepted.values():
            if event["event"] == "batch_ended":
                rounds.setdefault(event["batch"], []).append(event["round"])
        for batch in run.batches.all:
            if not batch.members:
                continue
            last = int(pairs(run.redis.call("HGETALL", Q + "batch:" + batch.name)).get("round", 0))
            found, due = sorted(rounds.get(batch.name, [])), list(range(1, last + 1))
            # A failover may lose a round, which takes place again with another position.
            is_right = found == due if run.topology.KEEPS_ACKNOWLEDGED else set(found) >= set(due)
            if not is_right:
                missing.append(f"batch {batch.name}: it ended {last} times, and there were webhooks of the rounds {found}")

    def figures(self):
        return {"webhooks: accepted, refused, cut off, of ends that a failover lost": ", ".join(
            str(self.counts[kind]) for kind in (204, 503, 0, "of lost ends"))}
